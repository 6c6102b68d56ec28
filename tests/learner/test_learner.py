"""A whole run: startup, run, shutdown; and a start that is refused or cut short."""

import json
import re
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from support.learners import a_config, a_run, restoring, shared_graphs
from support.waiting import readable

from farflung.actor.connection.inline import InlineConnection
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.sockets import Sockets
from farflung.actor.loop import ActorLoop
from farflung.actor.rules import Rules
from farflung.actor.worlds.families import opener
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.process.config import Loaded
from farflung.common.process.errors import ConfigurationError, OutOfMemory
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import State
from farflung.learner import learner, main, training
from farflung.learner.algorithms.dqn import DQN
from farflung.learner.core.build import build_core
from farflung.learner.learner import Learner
from farflung.learner.loop import Loop
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.observe.status import from_document
from farflung.learner.storage import checkpoint
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.totals import JournalTotals
from farflung.learner.storage.recover import recover
from farflung.learner.storage.run_folder import open_run


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Return a function that runs a small configuration to its end.

    It returns the exit code, the output and the folder.
    """
    monkeypatch.setattr(
        training, "metrics", lambda folder: StatusSink("metrics", lambda status: None, 1.0)
    )

    def run(**changes):
        config = a_config(**{"run_dir": str(tmp_path), "name": "one", **changes})
        code = Learner(Loaded(config, {})).serve()
        printed = capsys.readouterr()
        return SimpleNamespace(
            code=code, out=printed.out, err=printed.err, folder=tmp_path / config.name
        )

    return run


def parameters(found):
    return next(line for line in found.err.splitlines() if line.startswith("parameters: "))


def test_the_steps_end_a_run_in_turns(run):
    """--steps 40.

    That many are collected and learned from, a checkpoint is written, the exit code is 0.
    """
    found = run(steps=40)
    assert found.code == 0
    assert "all 40 steps are collected and learned from" in found.err
    assert checkpoint.load(found.folder).facts["steps"] == 40
    assert checkpoint.load(found.folder).facts["updates"] == 3


def test_a_device_that_is_full_is_named_with_what_helps(run, monkeypatch):
    """An algorithm that runs out of memory in its third update ends the run in a sentence."""
    gradients = DQN.gradients

    def full(self, batch):
        if self._updates == 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return gradients(self, batch)

    monkeypatch.setattr(DQN, "gradients", full)
    with pytest.raises(OutOfMemory, match=r"--batch-size \(8\).*--device.*\(CUDA out of memory"):
        run(steps=40)


def test_learner_says_how_to_continue(run):
    """The last lines hold the result, the parameters' hash, the folder and the next commands."""
    found = run(steps=40, ui="lines")
    assert "40 steps, 3 updates, " in found.out
    assert f"checkpoint: {found.folder}/checkpoints/000001" in found.out
    assert (
        f"learner --config {found.folder}/config.toml --name NEW --init {found.folder}" in found.out
    )
    assert f"tensorboard --logdir {found.folder.parent}" in found.out


def test_two_runs_with_one_seed_end_alike(run):
    """The printed hash is the same for the same seed and another for another."""
    found = [
        parameters(run(steps=40, seed=seed, name=name))
        for seed, name in ((0, "a"), (0, "b"), (1, "c"))
    ]
    assert found[0] == found[1] != found[2]


def test_statuses_come_as_json(run):
    """The last line of the screen is the state in which the run ended."""
    lines = run(steps=40).out.splitlines()
    assert all(
        line.startswith("{") for line in lines
    )  # nothing else comes between a machine and its JSON
    status = from_document(lines[-1])
    assert (status.state, status.steps, [actor.name for actor in status.actors]) == (
        "stop",
        40,
        ["local-0"],
    )


def test_the_log_is_kept_in_the_folder(run):
    """The log names the run, the device with its reason, and the memory."""
    log = (run(steps=40).folder / "logs" / "learner.log").read_text()
    assert "training on cpu" in log
    assert re.search(
        r"memory: 500 rows x .* GiB; "
        r"parcels on their way into it: 64 MiB for each actor, 1.00 GiB at most;",
        log,
    )
    assert "checkpoint: " in log


def test_evaluations_are_said_at_the_end(run):
    """The mean of the newest one."""
    assert ", evaluation " in run(steps=40, evaluate_every=16, evaluate_episodes=2).err


def test_run_without_an_update_says_so_and_fails(run):
    """Its steps were fewer than the warm-up. It is not marked as finished: nothing is done."""
    found = run(steps=8, warmup=16)
    assert found.code == 1
    assert "did not complete the warm-up of 16: raise --steps or lower --warmup" in found.err
    assert "nothing was learned: the weights are those of the start" in found.err
    assert not (found.folder / "FINISHED").exists()


def test_run_without_an_update_that_a_signal_ends_does_not_fail(tmp_path):
    """The end was asked for; the summary says that nothing was learned."""
    config = a_config(run_dir=str(tmp_path), name="one", warmup=400, until="steps > 1e9")
    one = Learner(Loaded(config, {}))
    one.stop.set("SIGTERM")
    assert one.serve() == 0


def test_run_that_reached_its_goal_is_not_continued(run, tmp_path):
    """With the same goal; another one is refused or goes on as ever. That is no failure."""
    found = run(steps=40)
    assert found.code == 0
    before = (found.folder / "MANIFEST").read_text()
    again = a_config(mode="async", steps=40, resume=str(found.folder), run_dir=str(tmp_path))
    assert main.goal_reached(again).startswith(
        f"{found.folder} has reached its goal: all 40 steps are collected and learned from\n"
    )
    assert main.goal_reached(again).endswith("--steps, --until, or --steps 0 for none.\n")
    assert main.train(Loaded(again, {})) == 0
    assert (found.folder / "MANIFEST").read_text() == before
    assert (found.folder / "FINISHED").exists()
    for other in ({"steps": 41}, {"steps": 0}, {"until": "updates > 3"}):
        changed = a_config(**{"mode": "async", "steps": 40, "resume": str(found.folder)} | other)
        assert not main.goal_reached(changed)


def test_a_folder_with_a_run_is_refused(run):
    """Before anything is built."""
    found = run(steps=40)
    before = (found.folder / "MANIFEST").read_text()
    with pytest.raises(ConfigurationError, match="holds a run already"):
        run(steps=40)
    assert (found.folder / "MANIFEST").read_text() == before


@pytest.fixture
def connection(monkeypatch):
    """Return the calls of a run with sockets.

    A stand-in for its loop gets session and transport, and returns at once.
    """
    seen = SimpleNamespace()

    class Once(Loop):
        def run(self, supervisor):
            transport, schedule = self._transport, self._schedule
            seen.address, seen.publish_every = transport.address, schedule.publish_every
            self._endpoint.publish(self.core.publish())
            supervisor.tick()
            seen.gone_on = not supervisor.over
            supervisor.verdict = "stopped: by the test"

    monkeypatch.setattr(training, "Loop", Once)
    return seen


def test_port_0_listens_anywhere(run, connection, tmp_path):
    """Two free ports next to each other, and the line to paste names the first."""
    found = run(mode="async", port=0, publish_every=7)
    assert connection.gone_on
    assert connection.publish_every == 7
    assert connection.address.feed_port == connection.address.port + 1
    assert (
        f"listening: actor 127.0.0.1:{connection.address.port} "
        f"(feed on port {connection.address.feed_port})" in found.err
    )
    document = json.loads(next(line for line in found.out.splitlines() if line.startswith("{")))
    assert document["join"] == f"actor 127.0.0.1:{connection.address.port}"


def test_the_feed_may_have_a_port_of_its_own(run, connection):
    """For tunnels and port maps."""
    context = sockets.context()
    with context:
        free, *pair = sockets.listen(context, Address("127.0.0.1", 0, 0), 1)
        for socket in pair:
            socket.close()
    run(mode="async", port=0, feed_port=free.feed_port)
    assert connection.address.feed_port == free.feed_port


@pytest.fixture
def acting(monkeypatch):
    """Lets an actor of this process, in a thread, take the place of the children."""
    stop, threads = Stop(), []

    def act(address):
        client = PolicyClient("default", "near", 2)
        around = Surroundings(client.problem, stop.wait, time.monotonic)
        with sockets.context() as context:
            near = InlineConnection(client, Sockets(context, address, client))
            who, watchdog = Who("actor", "near"), Watchdog(0.0)
            ActorLoop(near, opener(2, around), Rules(once=True), stop, watchdog, who).run()
            near.close("over", 1.0)

    def start(config, address, children):
        threads.append(threading.Thread(target=act, args=(address,)))
        threads[0].start()

    monkeypatch.setattr(learner, "start_local_actors", start)
    yield
    stop.set("the test is over")
    for thread in threads:
        thread.join()
    stop.close()


@pytest.mark.slow
@pytest.mark.usefixtures("acting")
def test_a_whole_run_over_sockets(run):
    """An ordinary actor joins, collects what is asked for, and ends with the run.

    Everything it sent is accounted for.
    """
    found = run(mode="async", port=0, steps=200, environments=2)
    assert found.code == 0
    assert "steps are collected and learned from" in found.err
    facts = checkpoint.load(found.folder).facts
    assert facts["steps"] >= 200
    assert facts["updates"] >= (200 - 16) // 8 - 1
    status = from_document([line for line in found.out.splitlines() if line.startswith("{")][-1])
    assert (status.lost, status.duplicates, status.refused) == (0, 0, {})
    assert [actor.name for actor in status.actors] == ["near"]


@pytest.fixture
def taken():
    """Return an address at which another socket listens."""
    with sockets.context() as context:
        address, *pair = sockets.listen(context, Address("127.0.0.1", 0, 0), 1)
        yield address
        for socket in pair:
            socket.close()


def test_a_taken_port_is_said_before_there_is_a_folder(tmp_path, taken):
    """Nothing was loaded or written yet, and the name stays free."""
    config = a_config(mode="async", port=taken.port, run_dir=str(tmp_path), name="one")
    with pytest.raises(ConfigurationError, match="Is another learner there"):
        Learner(Loaded(config, {})).serve()
    assert not (tmp_path / "one").exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"device": "cuda"}, "--device cuda: this torch"),
        ({"init": "nowhere"}, "--init nowhere: that folder is not there"),
    ],
    ids=["device", "init"],
)
def test_what_is_not_there_is_refused_and_leaves_no_folder(
    tmp_path, monkeypatch, changes, sentence
):
    """A card, the run to begin with: nothing was promised yet, and the name stays free."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ConfigurationError, match=sentence):
        Learner(Loaded(a_config(run_dir=str(tmp_path), name="one", **changes), {})).serve()
    assert not (tmp_path / "one").exists()


def test_a_run_without_a_checkpoint_has_no_weights(tmp_path):
    """As one that was killed early: said before torch is loaded."""
    a_run(tmp_path, "early")
    with pytest.raises(ConfigurationError, match=r"--init .*early: that folder has no checkpoint"):
        learner.require_weights(tmp_path / "early")


def test_a_signal_while_torch_is_loaded_leaves_no_folder(tmp_path, monkeypatch):
    """SIGTERM comes as an exception: exit code 0, and the next attempt may have the name."""

    class Ended:
        def find_spec(self, name, path=None, target=None):
            if name == "farflung.learner.training":
                raise SystemExit(0)

    monkeypatch.delitem(sys.modules, "farflung.learner.training", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Ended(), *sys.meta_path])
    config = a_config(mode="async", port=0, run_dir=str(tmp_path), name="one")
    with pytest.raises(SystemExit):
        Learner(Loaded(config, {})).serve()
    assert not (tmp_path / "one").exists()


def test_resumed_learner_tells_that_it_is_restoring_before_it_loads_torch(tmp_path, monkeypatch):
    """With the run's own graph, in the next epoch, which is on disk."""
    run = a_run(tmp_path)
    config = a_config(mode="async", port=0, resume=str(run.folder))
    with shared_graphs():
        build_core(config, run, torch.device("cpu"), 1)
    Journal(run.folder, JournalTotals(run.identity), 1, lambda items: None, durable=False).close()
    with (
        restoring(config) as network,
        sockets.context() as context,
        sockets.feed_subscriber(context, network.address, [topics.beacon("default")]) as feed,
    ):
        assert readable(feed)
        beacon = wire.read(wire.open_frame(feed.recv_multipart()[-1]))
    assert (beacon.state, beacon.version.epoch, beacon.run) == (State.RESTORING, 2, run.identity)
    assert recover(open_run(run.folder), durable=False).inbox.epoch == 3


def test_what_comes_first_needs_no_torch():
    """Its import takes more than a second: a run that goes on is heard before."""
    words = (
        "import sys, farflung.learner.learner; "
        "assert not {'torch', 'onnx', 'tensorboard'} & set(sys.modules), 'loaded'"
    )
    assert subprocess.run([sys.executable, "-c", words], check=False).returncode == 0
