"""A learner with updates that take long: actors go on to the documented bound, then wait or drop.

Updates here end when the test says so. Counts are exact at any speed of the machine.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest
from support.contexts import ANYWHERE, fresh_context
from support.learners import a_config, a_learner
from support.waiting import eventually
from support.worlds import Stamp

from farflung.actor.connection.inline import InlineConnection
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.sockets import Sockets
from farflung.actor.loop import ActorLoop, Rules
from farflung.actor.session import ActorSession, WhenFull
from farflung.actor.worlds.families import opener
from farflung.actor.worlds.gymnasium import register_environment
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who
from farflung.common.protocol.messages import Credit
from farflung.common.protocol.outbox import FULL
from farflung.learner.loop import Loop
from farflung.learner.schedule.schedule import Asynchronous
from farflung.learner.transport.network_thread import NetworkThread

WORLD = "slow-update/Counted"
ACTORS, HORIZON = 4, 16  # a window of one environment is a parcel of 16 rows
BATCH, WARMUP, RATIO = 8, 16, 1.0
# Rows that collection may be ahead. It is so few that the credit of each actor is one parcel.
AHEAD = 100
LONG_S = 60.0
NO_CREDIT = Credit(0, 0)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Training:
    """A learner on real sockets; each of its updates begins at once, and ends when it may."""

    def __init__(self, folder: Any, context: Any) -> None:
        config = a_config(
            mode="async",
            environment=WORLD,
            horizon=HORIZON,
            batch_size=BATCH,
            warmup=WARMUP,
            replay_ratio=RATIO,
            tolerance=RATIO * AHEAD,
        )
        self.core, self.endpoint = a_learner(config, folder)
        self.link = NetworkThread(context, ANYWHERE, self.endpoint)
        self.loop = Loop(self.core, Asynchronous(1), self.endpoint, self.link)
        self.begun = 0
        self._may_end, self._over = threading.Semaphore(0), False
        self._gradients = self.core.algorithm.gradients
        self.core.algorithm.gradients = self._slow_gradients
        self._thread = threading.Thread(target=self._train, daemon=True)
        self.link.start()
        self.endpoint.publish(self.core.publish())  # actors may act; they have no room yet

    def start(self) -> None:
        """Train in a thread; what was accepted before is the warm-up."""
        pacing = self.core.pacing
        pacing.warmup = self.accepted
        assert pacing.room == self.accepted + AHEAD
        self._thread.start()

    def admit_one(self) -> None:
        """Have room for one parcel beyond those that came."""
        self.endpoint.progress(0, 0, self.accepted + 1)

    def end_update(self) -> None:
        """Let one update end."""
        before = self.core.state.updates
        self._may_end.release()
        eventually(lambda: self.core.state.updates > before, "the update to end", LONG_S)

    def let_go(self) -> None:
        """Let all updates end, as fast as they can."""
        self._over = True
        self._may_end.release()

    def close(self) -> None:
        """End all threads."""
        self._stopped = True
        self.let_go()
        if self._thread.is_alive():
            self._thread.join(LONG_S)
        self.link.close()

    _stopped = False

    @property
    def accepted(self) -> int:
        """Rows that were taken from actors: in the replay, or in the queue in front of it."""
        return self.core.state.steps + sum(self.endpoint.queue.parcels.rows())

    @property
    def bound(self) -> float:
        """The documented bound: rows up to which there is room before this update ends."""
        return self.core.pacing.warmup + (self.core.pacing.samples + RATIO * AHEAD) / RATIO

    def _slow_gradients(self, batch: Any) -> Any:
        self.begun += 1
        while not self._over and not self._may_end.acquire(timeout=1.0):
            pass
        return self._gradients(batch)

    def _train(self) -> None:
        while not self._stopped:
            self.loop.do(self.loop.decide(over=False, rows_wanted=sys.maxsize))


class Acting:
    """An actor in a thread of its own, as the command runs it; its environment counts steps."""

    def __init__(self, number: int, training: Training, context: Any) -> None:
        self.stop = Stop()
        self.client = PolicyClient("default", f"box-{number}", 1)
        self.environments: list[Any] = []
        world = opener(1, Surroundings(self.client.problem, self.stop.wait, lambda: 0.0))
        connection = InlineConnection(
            self.client, Sockets(context, training.link.address, self.client)
        )
        who = Who("actor", f"box-{number}")
        self.loop = ActorLoop(connection, world, Rules(), self.stop, Watchdog(0.0), who)
        self._thread = threading.Thread(target=self._run, args=(connection,), daemon=True)
        self._thread.start()

    def _run(self, connection: InlineConnection) -> None:
        MADE.owner = self.environments
        try:
            self.loop.run()
        finally:
            connection.close("over", 0.0)

    @property
    def steps(self) -> int:
        """Steps that its environment has made."""
        return sum(environment.steps for environment in self.environments)

    @property
    def holds(self) -> bool:
        """Return whether it waits: all that it sent is answered, and it may send no more."""
        outbox, work = self.client.outbox, self.loop._work
        return bool(
            work.waits
            and outbox.credit == NO_CREDIT
            and not outbox.ledger.sent.parcels
            and outbox.ledger.waiting.parcels
        )

    def close(self) -> None:
        """End it."""
        self.stop.set("over")
        self._thread.join(LONG_S)
        self.stop.close()


class Made(threading.local):
    """The list of environments of the actor in this thread."""

    owner: list[Any] | None = None


MADE = Made()


class Counted(Stamp):
    """Counts its steps, and is known to the actor in the thread that made it."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        if MADE.owner is not None:
            MADE.owner.append(self)

    def step(self, action: Any) -> Any:
        self.steps += 1
        return super().step(action)


@contextmanager
def training_on(folder: Any, context: Any) -> Iterator[Training]:
    """Run a learner, and end it."""
    register_environment(WORLD, Counted)
    made = Training(folder, context)
    try:
        yield made
    finally:
        made.close()


def require_books(actors: list[Acting], training: Training) -> None:
    """Each step of an environment was accepted, or is in the one window that waits."""
    for actor in actors:
        ledger = actor.client.outbox.ledger
        assert ledger.balanced
        assert not ledger.refused
        assert not ledger.dropped
        assert (ledger.waiting.parcels, ledger.waiting.rows) == (1, HORIZON)
        assert actor.steps == ledger.collected.rows
        assert actor.steps == ledger.acknowledged.rows + HORIZON
    taken = sum(actor.client.outbox.ledger.acknowledged.rows for actor in actors)
    assert training.accepted == taken


def test_actors_collect_up_to_the_bound_while_an_update_runs_and_then_wait(tmp_path):
    """Without an update's end there are never more rows than the bound and a parcel of each actor.

    Then each actor holds one window more, and its environment stands still. Nothing is dropped.
    """
    with (
        fresh_context() as context,
        training_on(tmp_path, context) as training,
        ExitStack() as stack,
    ):
        actors = [Acting(number, training, context) for number in range(ACTORS)]
        for actor in actors:
            stack.callback(actor.close)

        def all_hold() -> bool:
            return all(actor.holds for actor in actors)

        # An actor sends one parcel before its first credit, or none.
        eventually(all_hold, "the actors to wait for room", LONG_S)
        assert training.accepted <= ACTORS * HORIZON
        require_books(actors, training)

        def all_share() -> bool:
            training.admit_one()
            return all(actor.client.outbox.ledger.acknowledged.parcels for actor in actors)

        # From now on the learner knows how many share its room.
        eventually(all_share, "a parcel of each actor", LONG_S)
        first = training.accepted
        training.start()
        eventually(lambda: training.begun == 1, "the first update", LONG_S)
        for updates in range(1, 9):
            bound = training.bound
            assert bound == first + AHEAD + (updates - 1) * BATCH
            eventually(
                lambda bound=bound: training.accepted >= bound and all_hold(),
                f"the actors to reach the bound of update {updates}",
                LONG_S,
            )
            assert training.core.state.updates == updates - 1  # it has not ended
            assert bound <= training.accepted < bound + ACTORS * HORIZON
            require_books(actors, training)
            training.end_update()
            eventually(lambda begun=updates + 1: training.begun == begun, "an update", LONG_S)


def test_session_that_must_not_wait_drops_its_oldest_windows_at_the_bound(tmp_path):
    """A robot never stands still: what the learner has no room for is kept, or dropped and counted.

    Every step is in one of the books, and what was not dropped arrives once there is room.
    """
    windows, kept = 60, 5
    with fresh_context() as context, training_on(tmp_path, context) as training:
        training.start()
        size = window_bytes(training)
        session = ActorSession(
            str(training.link.address),
            feed_port=training.link.address.feed_port,
            name="robot",
            patience_s=0.0,
            when_full=WhenFull.DROP_OLDEST,
            waiting_bytes=kept * size,
            join_within_s=LONG_S,
        )
        try:
            for number in range(windows * HORIZON):
                if number % HORIZON == 0:  # a robot's windows last longer than an answer takes
                    eventually(lambda: answered(session, training), "an answer", LONG_S)
                session.act(seen(number))
                session.record(0.0, False, False, seen(number + 1))
            session.act(seen(0), explore=False)  # the last window is over
            eventually(lambda: answered(session, training), "an answer", LONG_S)
            ledger = session.ledger
            assert training.bound <= training.accepted < training.bound + HORIZON
            assert ledger.balanced
            assert ledger.collected.rows == windows * HORIZON
            assert ledger.acknowledged.rows == training.accepted
            assert (ledger.sent.parcels, ledger.waiting.parcels) == (0, kept)
            assert set(ledger.dropped) == {FULL}
            taken = ledger.acknowledged.parcels
            assert ledger.dropped[FULL].parcels == windows - kept - taken
            training.let_go()
            assert session.close(LONG_S)
            assert ledger.acknowledged.parcels == taken + kept
            eventually(lambda: training.accepted == (taken + kept) * HORIZON, "all rows", LONG_S)
        finally:
            session.close(0.0)


def seen(number: int) -> Any:
    """Return the observation of a step."""
    return np.array([1, 0, number], np.float32)


def window_bytes(training: Training) -> int:
    """Return the bytes of a window of one trajectory, as an outbox counts them."""
    spec = training.core.spec
    return 5 + sum(
        int(np.prod(column.shape))
        * np.dtype(column.dtype).itemsize
        * column.count(HORIZON, 1, spec.stack)
        for column in spec.columns
    )


def answered(session: ActorSession, training: Training) -> bool:
    """Exchange messages, and return whether all that was sent is answered."""
    session._connection.exchange(0.01)
    return not session.ledger.sent.parcels and (
        not session.ledger.waiting.parcels or training.accepted >= training.bound
    )
