"""One test for each critical issue (S1, 1 to 7) and each lesson (L1 to L15) that earlier systems of this kind taught."""

import ast
import dataclasses
import io
import threading
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from support.learner_double import LearnerDouble
from support.learners import a_config, a_learner, an_empty_run
from support.makers import a_frame, a_parcel, a_spec, an_evaluation, some_weights

from farflung.actor import worker
from farflung.actor.acting.policy import Policy
from farflung.actor.collect import Collector
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.worker import Means, Place
from farflung.actor.worlds import gymnasium
from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import ACTIONS, OBSERVATIONS, REWARDS, Space, World
from farflung.common.data.version import Version
from farflung.common.heads import Choice
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.process import lifecycle
from farflung.common.process.errors import EnvironmentFailure, UsageError
from farflung.common.protocol import topics, wire
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.messages import Announcement, Beacon
from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.roster import Roster
from farflung.learner import config
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.core.pacing import Pacing
from farflung.learner.endpoint.parcel_queue import ParcelQueue
from farflung.learner.endpoint.publisher import Outlook
from farflung.learner.observe import screen
from farflung.learner.observe.status_builder import StatusBuilder
from farflung.learner.replay.batch import Batch
from farflung.learner.schedule import asynchronous
from farflung.learner.schedule.sequential import LocalCollector, played, train
from farflung.learner.storage import checkpoint
from farflung.learner.storage.checkpoint import Checkpoint
from farflung.learner.transport.network_thread import NetworkThread, NetworkView, look

ROOT = Path(__file__).parents[1]
PACKAGES = ("common", "actor", "learner", "broker")
ROOM = Outlook(1 << 20, 640, 80)

# ---- what the source says


@cache
def sources() -> tuple[tuple[str, ast.Module], ...]:
    """Every module of ours by its path."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return tuple((str(path.relative_to(ROOT)), ast.parse(path.read_text())) for path in paths)


@cache
def imports() -> dict[str, set[str]]:
    """What each of our modules imports, in full."""
    found: dict[str, set[str]] = {path: set() for path, _ in sources()}
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found[path] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found[path] |= {
                    str(node.module),
                    *(f"{node.module}.{alias.name}" for alias in node.names),
                }
    return found


def importers(name: str) -> set[str]:
    """Which of our modules import this one, or anything in it."""
    return {
        path
        for path, names in imports().items()
        if any(f"{other}.".startswith(f"{name}.") for other in names)
    }


@cache
def calls() -> tuple[tuple[str, ast.Call, str], ...]:
    """Every call in our modules: path, the call, and what is called as it is written."""
    found = (
        (path, node)
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    )
    return tuple((path, node, ast.unparse(node.func)) for path, node in found)


def callers(*names: str) -> set[str]:
    """Which of our modules call something whose last words are one of these."""
    return {
        path
        for path, _, called in calls()
        if any(f".{called}".endswith(f".{name}") for name in names)
    }


# ---- a learner and channels that hand each other bytes


def hears(side, client, now, outlook=ROOM):
    """What is due reaches a channel that subscribed to it."""
    if client.private:
        side.publisher.subscribed(client.private)
    for topic, frame in side.publisher.due(outlook, now):
        if any(topic.startswith(wanted) for wanted in client.subscriptions):
            client.hear(topic, bytes(frame), now)


def speaks(side, client, now):
    """What the channel has to say reaches the gate."""
    while (frame := client.next(now)) is not None:
        client.sent(now)
        accepted = side.receiver.receive(frame, now)
        if accepted is not None:
            side.receiver.settle(accepted.envelope)


def joining(side, name="box-1", now=0.0):
    """A channel that was not there before."""
    client = PolicyClient("default", name, 1)
    client.ask(now)
    hears(side, client, now)
    return client


def cartpole_parcel(rows=8, value=None):
    """One terminated trajectory of CartPole's shapes."""
    frames = np.random.default_rng(0).random((rows + 1, 4), dtype=np.float32)
    if value is not None:
        frames[:] = value
    columns = {
        OBSERVATIONS: frames,
        "actions": np.arange(rows) % 2,
        REWARDS: np.ones(rows, np.float32),
    }
    return Parcel(
        Version(1, 1), np.array([rows], np.int32), np.array([Ending.TERMINATED], np.uint8), columns
    )


def no_problem(kind: str, text: str) -> None:
    """Nobody hears of it."""


def means(seats=1):
    return Means(seats, no_problem, lambda seconds: None, time.monotonic)


class Rounds:
    """A session that goes on until so many steps are in."""

    def __init__(self, training, steps):
        self._training, self._steps = training, steps

    def goes_on(self, view):
        return self._training.steps < self._steps


def in_turns(learner, steps, players=1):
    """A small run in one process."""
    made = [
        LocalCollector(PolicyClient("default", f"local-{index}", 1), means())
        for index in range(players)
    ]
    train(
        learner.training, Rounds(learner.training, steps), learner.receiver, learner.publisher, made
    )
    return made


@pytest.fixture
def side():
    """A learner's side without sockets, two versions old."""
    side = LearnerDouble(life=5, versions=0)
    for number in (1, 2):
        side.publisher.publish(some_weights(side.spec, number, steps=320, value=number))
    return side


@pytest.fixture
def stamp_spec():
    """Gives specs of the environment that stamps life, episode and step."""

    def make(**arguments):
        return a_spec(
            world=World("toys/Stamp-v0", arguments, seed=5),
            observation={"": Space("box", "float32", (3,))},
            action=Space("discrete", "int64", (), (4,)),
        )

    return make


class Still:
    """Policy and explorer that always choose action 0."""

    def load(self, weights):
        """Any weights will do."""

    def answer(self, inputs):
        return [inputs[OBSERVATIONS]]

    def begin(self, horizon, steps):
        """Nothing is drawn."""

    def choose(self, t, outputs):
        return Choice(np.zeros(len(outputs[0]), np.int64))


def seats(spec, count, *key):
    return gymnasium.seats(
        spec.world,
        count,
        key=key,
        on_problem=no_problem,
        wait=lambda seconds: None,
        clock=time.monotonic,
        spec=spec,
    )


class Telltale(Still):
    """Chooses by what each seat sees."""

    def choose(self, t, outputs):
        return Choice(outputs[0].astype(np.int64)[:, [0, 2]].sum(axis=1) % 4)


def window(collector):
    """The next one, whole."""
    return played(collector.window())


def collector(spec, count, weights, *key):
    made = Collector(spec, seats(spec, count, *(key or ("actor", 0, 0))), Still(), Still())
    made.use(weights)
    return made


# ---- S1: the critical issues


@pytest.mark.slow
def test_s1_1_no_lock_crosses_a_process():
    """Processes share nothing but messages: no multiprocessing, no shared or mapped memory, no file locks, no inherited descriptors."""
    for name in (
        "multiprocessing",
        "concurrent",
        "torch.multiprocessing",
        "mmap",
        "posix_ipc",
        "sysv_ipc",
    ):
        assert importers(name) == set(), name
    assert importers("fcntl") == {
        "learner/storage/run_folder.py"
    }  # a run's folder has one learner: nobody ever waits for that lock
    assert (
        callers(
            "share_memory_",
            "share_memory",
            "fork",
            "forkserver",
            "SharedMemory",
            "set_start_method",
        )
        == set()
    )
    handed = {keyword.arg for _, call, _ in calls() for keyword in call.keywords}
    assert handed.isdisjoint({"pass_fds", "preexec_fn"})


def test_s1_2_agents_are_never_sent_but_made_again_from_data(tmp_path):
    """No message can hold a live object; what is sent is a graph and arrays, from which an actor makes a policy with the same answers."""
    learner = a_learner(a_config(), tmp_path)
    spec, module = learner.training.spec, learner.training.algorithm.policy()
    alive = dataclasses.replace(spec, world=World("CartPole-v1", {"agent": module}))
    with pytest.raises(TypeError):
        wire.encode(Announcement(alive, 1, 1))
    told = wire.read(wire.open_frame(bytes(wire.encode(Announcement(spec, 1, 1))))).spec
    weights = wire.read_weights(
        wire.open_frame(bytes(wire.encode_weights(learner.training.publish()))), told.graph.weights
    )
    policy = Policy(told.graph)
    policy.load(weights)
    seen = np.random.default_rng(0).random((5, 4), dtype=np.float32)
    with torch.no_grad():
        np.testing.assert_allclose(
            policy.answer({OBSERVATIONS: seen})[0],
            module(torch.from_numpy(seen)).numpy(),
            atol=1e-5,
        )


def test_s1_3_one_replay_has_one_owner():
    """What two actors send at the same time arrives whole and once, in one queue; nobody but training adds to a replay."""
    side, queue, context = LearnerDouble(life=5, versions=0), ParcelQueue(), sockets.context()
    link = NetworkThread(
        context, Address("127.0.0.1", 0, 0), side.receiver, side.publisher, queue, 16
    )
    link.start()

    def send(incarnation):
        with sockets.experience_sender(context, link.address) as socket:
            for sequence in range(1, 51):
                socket.send(
                    a_frame(
                        side.spec,
                        actor=f"box-{incarnation}",
                        incarnation=incarnation,
                        sequence=sequence,
                    )
                )

    threads = [threading.Thread(target=send, args=(incarnation,)) for incarnation in (1, 2)]
    try:
        for thread in threads:
            thread.start()
        rows = 0
        for _ in range(100):
            queue.wait(10.0)
            rows += queue.take().rows
    finally:
        for thread in threads:
            thread.join()
        link.close()
        context.destroy(linger=0)
    assert (rows, queue.first()) == (300, None)
    assert callers("replay.add") == {"learner/core/training.py"}


def test_s1_4_trained_weights_reach_the_actor(tmp_path):
    """After updates an actor acts on other weights than at first, the newest ones; it says which; a late joiner has them at once."""
    learner = a_learner(a_config(), tmp_path)
    before = {name: array.copy() for name, array in learner.training.publish().arrays.items()}
    (player,) = in_turns(learner, 40)
    held = player.client.weights
    assert held.version == learner.training.version
    assert any((held.arrays[name] != array).any() for name, array in before.items())
    late = joining(learner, "late", now=100.0)
    assert late.weights.version == learner.training.version
    speaks(learner, late, 100.0)
    assert learner.receiver.seen["late"].version == learner.training.version.number


def test_s1_5_one_architecture_with_borders():
    """Actors act and learners learn, in processes of their own: no module reaches across."""
    below = {
        "common": ("common",),
        "actor": ("common", "actor"),
        "broker": ("common", "broker"),
        "learner": ("common", "actor", "learner"),
    }
    for path, names in imports().items():
        ours = {name.split(".")[1] for name in names if name.startswith("farflung.")} & set(
            PACKAGES
        )
        assert ours <= set(below[path.partition("/")[0]]), path
    assert {path.partition("/")[0] for path in importers("torch")} == {"learner"}
    assert importers("gymnasium") == {"actor/worlds/gymnasium.py"}
    assert importers("onnxruntime") == {"actor/acting/policy.py"}
    doors = {
        f"common/net/{name}.py"
        for name in ("authenticator", "listener", "handshake", "keys", "diagnose", "sockets")
    }
    border = doors | {
        "actor/connection/sockets.py",
        "learner/transport/network_thread.py",
        "learner/cli/self_test.py",
    }
    assert {path for path in importers("zmq") if not path.startswith("broker/")} <= border


def test_s1_6_progress_has_a_single_authority(side):
    """Two actors know the steps of the whole run from the learner's beacon, and both the same."""
    channels = [joining(side, name, now=float(at)) for at, name in enumerate(("box-1", "box-2"))]
    side.publisher.hurry()
    (said,) = [
        frame
        for topic, frame in side.publisher.due(Outlook(1, 12_345, 99), 5.0)
        if topic == topics.beacon("default")
    ]
    for client in channels:
        client.hear(topics.beacon("default"), bytes(said), 5.0)
    assert [client.steps for client in channels] == [12_345, 12_345]


def test_s1_7_learners_never_wait_for_one_another(tmp_path):
    """Two policies trained in turns end with the bits that each has alone: nothing is shared, and foreign rows are refused."""

    def made(name, policy, seed):
        return a_learner(a_config(policy=policy, seed=seed, warmup=0), tmp_path, name)

    def step(learner):
        learner.training.insert([cartpole_parcel()])
        learner.training.update()

    left, right, alone = (
        made("left", "left", 1),
        made("right", "right", 2),
        made("alone", "left", 1),
    )
    for _ in range(3):
        step(left)
        step(right)
    for _ in range(3):
        step(alone)
    assert left.training.fingerprint == alone.training.fingerprint != right.training.fingerprint
    foreign = a_frame(left.training.spec, cartpole_parcel(), run=right.training.spec.run)
    assert right.receiver.receive(foreign, 0.0) is None
    assert right.receiver.inbox.ledger.refused == {"policy": 1}


# ---- the lessons


def through_bytes(spec, parcel):
    opened = wire.open_frame(
        ParcelCodec(spec).encode(
            wire.Envelope(spec.run, spec.policy, "a", 1, 1, 1, Version(1, 1), spec.schema), parcel
        )
    )
    return ParcelCodec(spec).decode(opened, wire.read_envelope(opened))


def test_l1_terminal_and_truncated_steps_are_right(tmp_path):
    """The winning step is stored with its reward and nothing after it; a truncated one keeps the value of what follows."""
    one_step = a_config(settings=DQNSettings(hidden=(4,), n_step=1))
    replay = a_learner(one_step, tmp_path).training.algorithm.replay
    spec = a_spec()
    replay = replay(spec, capacity=100, batch_size=64, seed=0)
    parcel = a_parcel((2, 2, 2), (Ending.TERMINATED, Ending.TRUNCATED, Ending.OPEN))
    parcel.columns[REWARDS][:] = [0, 1, 2, 3, 4, 5]
    replay.add(through_bytes(spec, parcel))
    batch = replay.sample(0)
    seen = dict(zip(batch.returns.tolist(), batch.discounts.tolist(), strict=True))
    assert seen == pytest.approx({0: 0.99, 1: 0.0, 2: 0.99, 3: 0.99, 4: 0.99, 5: 0.99})
    following = dict(zip(batch.returns.tolist(), batch.next_observations[""].tolist(), strict=True))
    assert following[3] == [
        10,
        11,
    ]  # the last frame of the second trajectory, which is no step of the third


def test_l2_every_trajectory_is_of_one_seat(stamp_spec):
    """Of three seats side by side each trajectory holds one seat's own episode, actions and rewards: perspectives cannot be mixed.

    A seat's actions tell its life and step, its rewards its life.
    """
    spec = stamp_spec(own=True)
    playing = Collector(spec, seats(spec, 3, "actor", 0, 0), Telltale(), Telltale())
    playing.use(some_weights(spec))
    parcel, lives = through_bytes(spec, window(playing)), set()
    for trajectory in parcel.trajectories(spec.columns, spec.stack):
        life, episode, step = trajectory.columns[OBSERVATIONS].astype(np.int64).T
        assert len(set(zip(life.tolist(), episode.tolist(), strict=True))) == 1
        assert (np.diff(step) == 1).all()
        assert (trajectory.columns[REWARDS] == life[0]).all()
        assert (trajectory.columns[ACTIONS] == (life + step)[:-1] % 4).all()
        lives.add(int(life[0]))
    assert len({life % 4 for life in lives}) > 1  # else all of them would choose alike


def test_l3_observations_are_copied_when_they_are_captured(stamp_spec):
    """An environment that overwrites its array in place is stored like one that makes a new one each time."""
    kept = []
    for in_place in (True, False):
        spec = stamp_spec(in_place=in_place)
        playing = collector(spec, 2, some_weights(spec))
        kept.append([window(playing).columns[OBSERVATIONS] for _ in range(4)])
    np.testing.assert_array_equal(*map(np.concatenate, kept))


def test_l4_no_two_random_streams_are_the_same(tmp_path):
    """Actors, restarts, seats and episodes all begin in different states, and explore differently; the same place always does the same."""
    learner = a_learner(a_config(), tmp_path)
    spec, weights = learner.training.spec, learner.training.publish()

    def life(index, start):
        """The first states of two episodes of each of two seats, and what was drawn for a hundred steps of exploration."""
        playing, seats = worker.collector(spec, Place(index, start), means(2))
        playing.use(weights)
        actions = np.concatenate([window(playing).columns[ACTIONS] for _ in range(7)])[:100]
        states = [
            tuple(state)
            for _ in range(2)
            for state in seats.reset().observations[OBSERVATIONS].tolist()
        ]
        seats.close()
        return states, tuple(actions.tolist())

    lives = [life(index, start) for index in range(3) for start in range(3)]
    assert len({state for states, _ in lives for state in states}) == 9 * 2 * 2
    assert len({actions for _, actions in lives}) == 9
    assert life(1, 2) == lives[5]


@pytest.mark.parametrize("value", [0.0, 2.5])
def test_l5_constant_observations_are_reported(tmp_path, value):
    """A thousand rows that never differ are a problem on the screen, not a silent failure to learn."""
    learner = a_learner(a_config(), tmp_path)
    overview = StatusBuilder(a_config(), an_empty_run(tmp_path), learner.training, "cpu")
    learner.training.insert([cartpole_parcel(1000, value)])
    assert "nothing can be learned from them" in overview.status(NetworkView(), 0.0).problems[0]


def test_l6_one_spec_checked_by_its_hash():
    """Rows made by any other spec are refused under a name of their own; the network's inputs come from the same spec."""
    side = LearnerDouble(life=5, versions=0)
    others = {"stack": 2, "horizon": 9, "action": Space("discrete", "int64", (), (3,))}
    for number, change in enumerate(others.items(), 1):
        other = dataclasses.replace(side.spec, **dict([change]))
        assert other.schema != side.spec.schema
        assert (
            side.receiver.receive(a_frame(side.spec, sequence=number, schema=other.schema), 0.0)
            is None
        )
    assert side.receiver.inbox.ledger.refused == {"schema": 3}


def test_l7_versions_are_whole_and_never_go_back(side, stamp_spec):
    """Damaged and older weights change nothing at an actor, and a window is played under one version from its start to its end."""
    client = joining(side)
    assert client.weights.version == Version(1, 2)
    damaged = wire.encode_weights(some_weights(side.spec, 3))
    damaged[-1] ^= 1
    older = wire.encode_weights(some_weights(side.spec, 1))
    for frame in (damaged, older):
        client.hear(topics.weights("default"), bytes(frame), 0.0)
    assert (client.weights.version, client.weights.arrays["matrix"].tolist()) == (
        Version(1, 2),
        [[2, 2], [2, 2]],
    )

    spec = stamp_spec()
    playing = collector(spec, 1, some_weights(spec, 1))
    steps = playing.window()
    next(steps)
    playing.use(some_weights(spec, 2))
    assert [played(steps).version.number, window(playing).version.number] == [1, 2]


def test_l8_the_replay_ratio_holds_both_ways(tmp_path):
    """Learning waits for rows and collection waits for updates, and after a run the ratio is what was asked for."""
    pacing = Pacing(ratio=2.0, batch=8, warmup=0, parcel=4, tolerance=16.0)
    assert not pacing.may_update
    pacing.inserted(8)
    assert (pacing.may_update, pacing.may_insert(4)) == (True, False)
    pacing.sampled(8)
    assert (pacing.may_update, pacing.may_insert(4)) == (True, True)
    pacing.sampled(8)
    assert not pacing.may_update
    learner = a_learner(a_config(replay_ratio=2.0), tmp_path)
    in_turns(learner, 200)
    assert learner.training.pacing.held == 2.0


class Briefly:
    """A session and a link that go on for a little while, and count how often training asks."""

    view, outlook, rows_wanted = NetworkView(), None, 1000

    def __init__(self, seconds):
        self._seconds, self._until, self.rounds = seconds, 0.0, 0

    def goes_on(self, view):
        self.rounds += 1
        self._until = self._until or time.monotonic() + self._seconds
        return time.monotonic() < self._until

    def check(self):
        """All is well."""

    def publish(self, weights):
        """Nobody listens."""


def test_l9_nobody_waits_busily(tmp_path):
    """There is no sleep in the packages; training that waits for experience looks some twenty times a second, and sleeps between."""
    assert callers("time.sleep", "sleep") == set()
    before = time.thread_time()
    ParcelQueue().wait(0.2)
    assert time.thread_time() - before < 0.01  # on a busy machine a loop would not get much more
    briefly = Briefly(0.15)
    asynchronous.train(a_learner(a_config(), tmp_path).training, briefly, briefly, ParcelQueue(), 1)
    assert 1 < briefly.rounds <= 5


def test_l10_nothing_is_dropped_silently(side, tmp_path):
    """What an actor drops is in its report under its reason, what a learner refuses in its view and on its screen."""
    client = joining(side)
    client.outbox.offer(a_parcel(), 3, 100)
    other = dataclasses.replace(side.spec, run="run-2")
    news = LearnerDouble(other, life=6, versions=0)
    (beacon,) = [
        frame
        for topic, frame in news.publisher.due(ROOM, 20.0)
        if topic == topics.beacon("default")
    ]
    client.hear(topics.beacon("default"), bytes(beacon), 20.0)
    assert client.outbox.ledger.balanced
    assert client.outbox.ledger.figures()["dropped.run ended.rows"] == 3
    side.receiver.receive(b"odd", 0.0)
    view = look(side.receiver, 0.0)
    assert view.refused == (("truncated", 1),)
    overview = StatusBuilder(
        a_config(),
        an_empty_run(tmp_path),
        a_learner(a_config(), tmp_path).training,
        "cpu",
    )
    assert "refused or lost 1" in screen.line(overview.status(view, 0.0))


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (
            EnvironmentFailure("the environment failed 5 times"),
            70,
            "learner: the environment failed 5 times\n",
        ),
        (UsageError("no such flag"), 64, "learner: no such flag\n"),
        (ZeroDivisionError("a fault"), 70, "ZeroDivisionError: a fault"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_l11_exceptions_end_the_process_with_a_code_and_a_message(error, code, words):
    """Nothing that goes wrong looks like success."""

    def fail():
        raise error

    said = io.StringIO()
    assert lifecycle.main_guard("learner", fail, said) == code
    assert words in said.getvalue()


def test_l12_evaluation_has_start_states_of_its_own(tmp_path):
    """No start state of five episodes in two seats is one that a collector of the same place has, and its steps enter no replay."""
    learner = a_learner(a_config(), tmp_path)
    spec = learner.training.spec
    starts = []
    for make in (worker.collector, worker.evaluator):
        _, playing = make(spec, Place(0, 0), means(2))
        starts.append(
            {
                tuple(state)
                for _ in range(5)
                for state in playing.reset().observations[OBSERVATIONS].tolist()
            }
        )
        playing.close()
    assert len(starts[0]) == len(starts[1]) == 10
    assert starts[0].isdisjoint(starts[1])
    learner.training.insert([an_evaluation([9.0])])
    assert (learner.training.replay.size, learner.training.progress.episodes) == (0, 0)


def test_l13_results_are_kept_by_policy_and_add_up(tmp_path):
    """Each episode is counted once, for the policy that played it; greedy ones are counted apart; what is told names its policy."""
    learner = a_learner(a_config(), tmp_path)
    players = in_turns(learner, 240, players=2)
    progress = learner.training.progress
    assert progress.episodes == len(progress.returns) > 0
    assert progress.returns == progress.lengths  # CartPole gives one for each step
    assert (
        sum(progress.lengths)
        <= sum(player.client.outbox.ledger.collected.rows for player in players)
        == 240
    )
    collected = list(progress.returns)
    learner.training.insert([an_evaluation([1e6])])
    assert (list(progress.returns), progress.episodes, progress.evaluation.mean) == (
        collected,
        len(collected),
        1e6,
    )
    foreign = a_frame(learner.training.spec, cartpole_parcel(), policy="other", actor="box-9")
    assert learner.receiver.receive(foreign, 0.0) is None
    (beacon,) = [
        wire.read(wire.open_frame(f))
        for t, f in learner.publisher.due(ROOM, 1e6)
        if t == topics.beacon("default")
    ]
    assert isinstance(beacon, Beacon)
    assert beacon.policy == "default"


def test_l14_what_must_survive_a_restart_is_restored(tmp_path):
    """Weights, target, optimizer and counters, who was given which place, and what was acknowledged, all from what is on disk."""
    ones, frames = np.ones(8, np.float32), np.eye(8, 4, dtype=np.float32)
    columns = {
        OBSERVATIONS: frames,
        ACTIONS: np.zeros(8, np.int64),
        "returns": ones,
        "discounts": ones,
    }
    batch = Batch(columns, {OBSERVATIONS: -frames}, np.arange(8))
    first = a_learner(a_config(), tmp_path, "first").training.algorithm
    first.apply(first.gradients(batch))
    inbox, roster = Inbox(1), Roster()
    inbox.admit("box-1", 7, 1, 1, 0.0)
    inbox.commit("box-1", 7, 1)
    roster.join("box-1", 7, 0.0)
    facts = {"steps": 640, "inbox": inbox.state(), "roster": roster.state()}
    checkpoint.save(tmp_path / "first", Checkpoint(first.state(), facts))

    found = checkpoint.load(tmp_path / "first")
    second = a_learner(a_config(seed=9), tmp_path, "second")
    second.training.algorithm.restore(found.tensors)
    for algorithm in (first, second.training.algorithm):
        algorithm.apply(algorithm.gradients(batch))
    states = first.state(), second.training.algorithm.state()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    again = Inbox.restore(found.facts["inbox"])
    assert (again.epoch, again.admit("box-1", 7, 1, 1, 0.0).value) == (2, "duplicate")
    back = Roster.restore(found.facts["roster"], 0.0).join("box-1", 8, 0.0)
    assert (back.index, back.start) == (0, 1)
    exploration = second.training.spec.exploration
    assert exploration.epsilon(found.facts["steps"]) == pytest.approx(1 - 0.95 * 640 / 10_000)


def test_l15_unknown_settings_are_refused_with_a_suggestion(tmp_path, monkeypatch):
    """As a flag, in the environment and in a file: never ignored, and the nearest known one is named."""
    file = tmp_path / "learner.toml"
    file.write_text("replay_ration = 4\n")
    for argv in (["--replay-ration", "4"], ["--config", str(file)]):
        with pytest.raises(UsageError, match=r"replay.ratio"):
            config.load(argv)
    monkeypatch.setenv("FARFLUNG_REPLAY_RATION", "4")
    with pytest.raises(UsageError, match="REPLAY_RATIO"):
        config.load([])


# ---- what all of them rest on


@pytest.mark.slow
def test_nothing_that_arrives_is_executed():
    """No pickle in any form, no torch.load, no eval or exec, and nothing is imported by a name from the network."""
    for name in ("pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"):
        assert importers(name) == set(), name
    assert callers("torch.load", "loads_pickle", "np.load", "numpy.load") == set()
    assert {
        path for path, _, called in calls() if called in ("eval", "exec", "compile", "__import__")
    } == set()


def test_nothing_is_imported_by_a_name_from_the_network():
    """Only `plugins` imports by name, and only those modules ask it that read this machine's own flags."""
    assert callers("import_module") == {"common/process/plugins.py"}
    assert importers("farflung.common.process.plugins") <= {
        "actor/main.py",
        "learner/build.py",
        "learner/config.py",
        "learner/start.py",
    }


def test_headers_hold_plain_data():
    """msgpack is read in three places, and its extension types in none."""
    assert importers("msgpack") == {
        "common/protocol/headers.py",
        "learner/storage/checkpoint.py",
        "learner/storage/journal/payloads.py",
        "learner/storage/manifest.py",
    }
    limits = [
        {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        for _, call, called in calls()
        if called == "msgpack.unpackb"
    ]
    assert len(limits) == 3
    assert all(limit["max_ext_len"] == "0" for limit in limits)
