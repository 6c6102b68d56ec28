"""A whole run: folder, learner, connection, actors, training, checkpoint, last words."""

import json
import re
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from support.learners import a_config

from farflung.actor.connection.inline import InlineConnection
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.sockets import Sockets
from farflung.actor.loop import ActorLoop, Rules
from farflung.actor.worlds.gymnasium import Surroundings, opener
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.process.config import Loaded
from farflung.common.process.errors import ConfigurationError, OutOfMemory
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who
from farflung.learner import start, train
from farflung.learner.algorithms.dqn import DQN
from farflung.learner.loop import Loop
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.observe.status import from_document
from farflung.learner.storage import checkpoint


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a small configuration to its end; gives exit code, what it printed, and its folder."""
    monkeypatch.setattr(
        train, "metrics", lambda folder: StatusSink("metrics", lambda status: None, 1.0)
    )

    def run(**changes):
        config = a_config(**{"run_dir": str(tmp_path), "name": "one", **changes})
        code = start.start(Loaded(config, {}))
        printed = capsys.readouterr()
        return SimpleNamespace(
            code=code, out=printed.out, err=printed.err, folder=tmp_path / config.name
        )

    return run


def parameters(found):
    return next(line for line in found.err.splitlines() if line.startswith("parameters: "))


def test_the_steps_end_a_run_in_turns(run):
    """--steps 40: that many are collected and learned from, a checkpoint is written, the exit code is 0."""
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


def test_the_last_words_say_how_to_go_on(run):
    """What happened, the parameters' hash, the folder, and the commands for what is next."""
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
    """Which run, on which device and why, and what it takes of memory."""
    log = (run(steps=40).folder / "logs" / "learner.log").read_text()
    assert "training on cpu" in log
    assert re.search(
        r"memory: 500 rows x .* GiB; parcels on their way into it: 64 MiB for each actor, 1.00 GiB at most;",
        log,
    )
    assert "checkpoint: " in log


def test_evaluations_are_said_at_the_end(run):
    """The mean of the newest one."""
    assert ", evaluation " in run(steps=40, evaluate_every=16, evaluate_episodes=2).err


def test_a_folder_with_a_run_is_refused(run):
    """Before anything is built."""
    found = run(steps=40)
    before = (found.folder / "MANIFEST").read_text()
    with pytest.raises(ConfigurationError, match="holds a run already"):
        run(steps=40)
    assert (found.folder / "MANIFEST").read_text() == before


@pytest.fixture
def connection(monkeypatch):
    """What a run with sockets did: the stand-in for its loop gets session and link, and returns at once."""
    seen = SimpleNamespace()

    class Once(Loop):
        def run(self, supervisor):
            link, schedule = self._transport, self._schedule
            seen.address, seen.publish_every = link.address, schedule.publish_every
            link.publish(self.core.publish())
            supervisor.tick()
            seen.gone_on = not supervisor.over
            supervisor.verdict = "stopped: by the test"

    monkeypatch.setattr(train, "Loop", Once)
    return seen


def test_port_0_listens_anywhere(run, connection, tmp_path):
    """Two free ports next to each other, and the line to paste names the first."""
    found = run(mode="async", port=0, publish_every=7)
    assert connection.gone_on
    assert connection.publish_every == 7
    assert connection.address.feed_port == connection.address.port + 1
    assert (
        f"listening: actor 127.0.0.1:{connection.address.port} (feed on port {connection.address.feed_port})"
        in found.err
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

    monkeypatch.setattr(train, "start_local_actors", start)
    yield
    stop.set("the test is over")
    for thread in threads:
        thread.join()
    stop.close()


@pytest.mark.slow
@pytest.mark.usefixtures("acting")
def test_a_whole_run_over_sockets(run):
    """An ordinary actor joins, collects what is asked for, and ends with the run; everything it sent is accounted for."""
    found = run(mode="async", port=0, steps=200, environments=2)
    assert found.code == 0
    assert "steps are collected and learned from" in found.err
    facts = checkpoint.load(found.folder).facts
    assert facts["steps"] >= 200
    assert facts["updates"] >= (200 - 16) // 8 - 1
    status = from_document([line for line in found.out.splitlines() if line.startswith("{")][-1])
    assert (status.lost, status.duplicates, status.refused) == (0, 0, {})
    assert [actor.name for actor in status.actors] == ["near"]
