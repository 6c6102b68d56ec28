"""The actor as a library, against a learner's own sockets.

The caller's world counts: it shows (episode, step).
"""

import logging
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.learner_double import LearnerDouble
from support.makers import some_weights
from support.stamps import a_stamp_spec
from support.waiting import Clock

from farflung.actor.connection.sockets import Sockets
from farflung.actor.session import ActorSession, WhenFull
from farflung.common.data.spec import Exploration
from farflung.common.data.weights import Version
from farflung.common.net.address import Address
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol.messages import State
from farflung.common.protocol.roster import Presence

Serve = Callable[..., Any]
Open = Callable[..., ActorSession]
Transports = list[Sockets]


@pytest.fixture
def served(serve: Serve) -> Any:
    """A learner that listens."""
    return serve(LearnerDouble(a_stamp_spec()))


@pytest.fixture
def transports(monkeypatch: pytest.MonkeyPatch) -> Transports:
    """Return the transports of the sessions, in the order in which they are opened."""
    made: Transports = []

    class Noted(Sockets):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)

    monkeypatch.setattr("farflung.actor.connection.opened.Sockets", Noted)
    return made


@pytest.fixture
def open_session() -> Iterator[Open]:
    """Return a maker of sessions, which are closed at the end."""
    sessions: list[ActorSession] = []

    def make(address: Address, **options: Any) -> ActorSession:
        sessions.append(
            ActorSession(str(address), policy="p", name="a", join_within_s=20.0, **options)
        )
        return sessions[-1]

    yield make
    for session in sessions:
        session.close(0.0)


class World:
    """A caller's world with episodes of six steps."""

    def __init__(self, session: ActorSession) -> None:
        self.session = session
        self.step, self.episode = 0, 0

    def look(self) -> np.ndarray:
        """Return the observation."""
        return np.array([0, self.episode, self.step], np.float32)

    def turn(self, steps: int = 1) -> None:
        """Take so many turns of the caller's loop."""
        for _ in range(steps):
            self.session.act(self.look())
            self.step += 1
            over = self.step == 6
            self.session.record(1.0, over, False, self.look())
            if over:
                self.step, self.episode = 0, self.episode + 1


def until(condition: Callable[[], object], turn: Callable[[], object]) -> None:
    """Take turns until a condition holds."""
    for _ in range(100_000):
        if condition():
            return
        turn()
    raise AssertionError("it never happened")


def silence(client: Any, clock: Clock) -> None:
    """Lose all messages of the learner from now on, and let ten seconds pass."""
    client.receive = lambda topic, frame, now: None
    clock.wait(10.0)


def end_silence(client: Any) -> None:
    """Receive messages again."""
    vars(client).pop("receive", None)


class TestPlaying:
    """The two calls of a loop."""

    def test_what_is_recorded_reaches_the_learner(self, served: Any) -> None:
        """Two episodes of six steps in windows of four.

        `close` sends the rest, and says goodbye.
        """
        with ActorSession(str(served.address), policy="p", name="a") as session:
            assert session.spec.run == "r"
            World(session).turn(13)
            assert session.version == Version(1, 1)
        parcels = served.take(4)
        assert [parcel.rows for parcel in parcels] == [4, 4, 4, 1]
        assert [parcel.lengths.tolist() for parcel in parcels] == [[4], [2, 2], [4], [1]]
        assert [parcel.results.returns.tolist() for parcel in parcels] == [[], [6.0], [6.0], []]
        assert (session.ledger.acknowledged.rows, session.ledger.balanced) == (13, True)
        until(
            lambda: [m.presence(0.0) for m in served.double.receiver.roster] == [Presence.LEFT],
            lambda: served.queue.wait(0.01),
        )

    def test_new_weights_are_acted_on_from_the_next_window(
        self, served: Any, open_session: Open
    ) -> None:
        """And without exploring, by what they like best."""
        session = open_session(served.address)
        world = World(session)
        world.turn(1)
        served.double.endpoint.publish(some_weights(served.double.spec, 2, best=3))
        until(lambda: session.version == Version(1, 2), world.turn)
        assert session.act(world.look(), explore=False) == 3

    def test_the_learner_counts_its_steps_and_episodes(
        self, served: Any, open_session: Open, transports: Transports
    ) -> None:
        """Reports hold them, and the longest step of the caller's world."""
        clock = Clock()
        session = open_session(served.address, clock=clock)
        world = World(session)
        world.turn(13)
        clock.wait(70.0)
        session.act(world.look())
        clock.wait(50.0)
        session.record(0.0, False, False, world.look())
        work = transports[0].client.work
        assert (work.steps, work.episodes, work.waits) == (14, 2, 0)
        assert work.longest_step_s == 50.0

    def test_endings_may_be_numpys(
        self, served: Any, open_session: Open, transports: Transports
    ) -> None:
        """The episode is counted, and the report of it can be encoded."""
        session = open_session(served.address)
        world = World(session)
        session.act(world.look())
        session.record(np.float32(1.0), np.False_, np.True_, world.look())
        assert transports[0].client.work.episodes == 1
        assert session.close(10.0)

    def test_mistakes_are_named(self, served: Any) -> None:
        """They are to record before acting, to show another shape, and to act after the end."""
        with ActorSession(str(served.address), policy="p") as session:
            with pytest.raises(ValueError, match="call act"):
                session.record(0.0, False, False, [0, 0, 0])
            with pytest.raises(ConfigurationError, match="was shown"):
                session.act([0, 0])
        with pytest.raises(ValueError, match="closed"):
            session.act([0, 0, 0])
        assert session.close()  # once more does no harm

    def test_what_breaks_the_callers_loop_is_told_to_the_learner(self, served: Any) -> None:
        """The steps recorded before it are sent too."""

        def loop() -> None:
            with ActorSession(str(served.address), policy="p", name="a") as session:
                World(session).turn(2)
                session.record(1 / 0, False, False, [0, 0, 0])

        with pytest.raises(ZeroDivisionError):
            loop()
        assert served.take(1)[0].rows == 2
        until(lambda: served.double.receiver.problems, lambda: served.queue.wait(0.01))
        assert "a: ended: ZeroDivisionError" in served.double.receiver.problems[0]


class TestJoining:
    """A session waits for its learner."""

    def test_missing_learner_is_an_error_after_a_while(self) -> None:
        """The error names the address; by default a session waits as long as it takes."""
        with pytest.raises(
            ConfigurationError, match=r"no learner answered at 127\.0\.0\.1:9 within 0\.05 s"
        ):
            ActorSession("127.0.0.1:9", join_within_s=0.05)

    def test_a_graph_that_cannot_be_played_is_an_error(self, serve: Serve) -> None:
        """The session raises at once, not at the first action, and leaves nothing open."""
        learner = LearnerDouble(a_stamp_spec(head="logits"))
        with pytest.raises(Exception, match="logits over a discrete space"):
            ActorSession(str(serve(learner).address), policy="p", join_within_s=20.0)

    @pytest.mark.parametrize("threaded", [False, True])
    def test_hostile_spec_is_an_error(self, serve: Serve, threaded: bool) -> None:
        """The session raises one sentence, before it makes anything for the spec."""
        learner = LearnerDouble(a_stamp_spec(horizon=1 << 62))
        with pytest.raises(Refused, match="a horizon of 4611686018427387904"):
            ActorSession(
                str(serve(learner).address), policy="p", join_within_s=20.0, threaded=threaded
            )


class TestWaiting:
    """The caller's loop waits for room at the learner, or does not."""

    def test_session_keeps_the_pace_of_a_learner_without_room(
        self, serve: Serve, open_session: Open, transports: Transports
    ) -> None:
        """A session waits at the end of a window until there is room."""
        learner = LearnerDouble(a_stamp_spec())
        learner.room = 4
        served = serve(learner)
        session = open_session(served.address)
        world = World(session)
        pumps = iter(range(3))
        exchange = transports[0].exchange

        def count(timeout_s: float = 0.0) -> None:
            if next(pumps, None) is None:
                served.queue.room = 1 << 20
            exchange(timeout_s)

        transports[0].exchange = count  # type: ignore[method-assign,assignment]
        world.turn(30)
        assert session.ledger.collected.parcels == 7
        assert session.ledger.waiting.parcels == 0
        assert next(pumps, None) is None

    def test_session_without_patience_does_not_wait(
        self, serve: Serve, open_session: Open, transports: Transports
    ) -> None:
        """Windows pile up instead, in their order."""
        learner = LearnerDouble(a_stamp_spec())
        learner.room = 0
        served = serve(learner)
        session = open_session(served.address, patience_s=0.0)
        until(
            lambda: transports[0].client.outbox.credit.messages == 0,
            lambda: transports[0].exchange(0.01),
        )
        World(session).turn(41)
        assert session.ledger.waiting.parcels == 10
        served.queue.room = 1 << 20
        until(
            lambda: transports[0].client.outbox.idle,
            lambda: transports[0].exchange(0.01),
        )
        assert [parcel.columns["observations"][0, 2] for parcel in served.take(10)][:3] == [0, 4, 2]

    def test_patience_is_bounded(
        self, serve: Serve, open_session: Open, transports: Transports
    ) -> None:
        """The session waits so long at the end of each window."""
        learner = LearnerDouble(a_stamp_spec())
        learner.room = 0
        session = open_session(serve(learner).address, patience_s=0.05)
        until(
            lambda: transports[0].client.outbox.credit.messages == 0,
            lambda: transports[0].exchange(0.01),
        )
        before = time.monotonic()
        World(session).turn(9)
        assert time.monotonic() - before >= 0.1
        assert session.ledger.waiting.parcels == 2

    def test_while_the_learner_is_away_the_loop_goes_on(
        self,
        served: Any,
        open_session: Open,
        transports: Transports,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Windows are kept, and leave when the learner is back."""
        clock = Clock()
        session = open_session(served.address, clock=clock)
        world = World(session)
        world.turn(4)
        silence(transports[0].client, clock)
        world.turn(41)
        assert session.ledger.collected.parcels == 11
        assert session.ledger.waiting.parcels + session.ledger.sent.parcels >= 10
        assert "no message from the learner" in caplog.text
        end_silence(transports[0].client)
        until(
            lambda: transports[0].client.outbox.idle,
            lambda: transports[0].exchange(0.01),
        )
        assert sum(parcel.rows for parcel in served.take(11)) == 44

    def test_full_session_drops_its_oldest_windows_if_asked(
        self, served: Any, open_session: Open, transports: Transports
    ) -> None:
        """The ledger counts the dropped windows."""
        clock = Clock()
        session = open_session(
            served.address, clock=clock, when_full=WhenFull.DROP_OLDEST, waiting_bytes=400
        )
        silence(transports[0].client, clock)
        World(session).turn(41)
        dropped = session.ledger.dropped["outbox full"].parcels
        assert 6 <= dropped < 10
        assert session.ledger.waiting.parcels == 10 - dropped
        assert session.ledger.balanced

    def test_full_session_waits_for_the_learner_by_default(
        self, served: Any, open_session: Open, transports: Transports
    ) -> None:
        """No window is lost."""
        clock = Clock()
        session = open_session(served.address, clock=clock, waiting_bytes=400)
        silence(transports[0].client, clock)
        turns = iter(range(3))
        exchange, pumped = transports[0].exchange, []

        def count(timeout_s: float = 0.0) -> None:
            if timeout_s and next(turns, None) is None:
                pumped.append(timeout_s)
                end_silence(transports[0].client)
            exchange(timeout_s)

        transports[0].exchange = count  # type: ignore[method-assign,assignment]
        World(session).turn(41)
        assert pumped
        assert session.ledger.collected.parcels == 10
        assert not session.ledger.dropped
        served.take(10)


class TestRuns:
    """A session outlives runs and learners."""

    def test_the_end_of_a_run_is_known_and_holds_nothing_up(
        self, served: Any, open_session: Open, transports: Transports
    ) -> None:
        """The session plays on, waits for no learner, and closes at once."""
        session = open_session(served.address)
        world = World(session)
        world.turn(5)
        assert not session.over
        served.network_thread.close(State.STOP)
        until(lambda: session.over, lambda: transports[0].exchange(0.01))
        world.turn(41)
        assert not session.close(600.0)

    @pytest.mark.slow
    def test_session_takes_part_in_the_next_run(
        self,
        served: Any,
        open_session: Open,
        serve: Serve,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """The session changes at the next action after the snapshot came.

        An episode that spans both runs has its whole return.
        """
        session = open_session(served.address)
        world = World(session)
        world.turn(8)
        served.network_thread.close()
        other = serve(LearnerDouble(a_stamp_spec(run="s", horizon=3), learner_id=9), served.address)
        until(lambda: session.spec.run == "s", world.turn)
        world.turn(12)
        parcels = other.take(3)
        assert [parcel.rows for parcel in parcels] == [3, 3, 3]
        assert all(set(parcel.results.returns.tolist()) <= {6.0} for parcel in parcels)
        assert set(other.double.receiver.inbox.ledger.refused) <= {
            "run"
        }  # what lay in the pipe when the old one had gone
        assert session.ledger.balanced
        assert "another run is at this address" in caplog.text

    @pytest.mark.slow
    def test_session_goes_on_in_the_same_run(
        self,
        served: Any,
        open_session: Open,
        serve: Serve,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """A learner that was started again is sent what the one before did not acknowledge.

        The open window is not torn.
        """
        session = open_session(served.address)
        world = World(session)
        world.turn(6)
        served.network_thread.close()
        again = serve(LearnerDouble(served.double.spec, epoch=2, learner_id=9), served.address)
        with caplog.at_level(logging.INFO):
            until(lambda: "the learner was started again" in caplog.text, world.turn)
            until(lambda: session.version.epoch == 2, world.turn)
        assert again.take(1)[0].rows == 4


def test_defaults_are_an_ordinary_actors(served: Any) -> None:
    """An ordinary actor has one seat, does not evaluate, and waits without a limit."""
    with ActorSession(
        served.address.host + f":{served.address.port}",
        policy="p",
        feed_port=served.address.feed_port,
    ) as session:
        World(session).turn(4)
    (seen,) = served.double.receiver.seen.values()
    assert (seen.seats, seen.evaluates) == (1, False)
    assert session._windows._patience_s == math.inf


def test_exploration_is_the_learners(serve: Serve, open_session: Open) -> None:
    """With an epsilon of 1 the session takes every action."""
    session = open_session(
        serve(
            LearnerDouble(a_stamp_spec(horizon=100, exploration=Exploration(1.0, 1.0, 1)))
        ).address
    )
    assert {session.act([0, 0, 0]) for _ in range(50)} == {0, 1, 2, 3}
    assert not session.over
