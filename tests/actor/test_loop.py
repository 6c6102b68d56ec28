"""The actor's loop, in turns with a learner's endpoint. Time passes where the loop waits.

Then its heartbeat: the file for health checks, and the end of patience.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import worlds
from support.learner_double import DoubleTransport, LearnerDouble
from support.makers import some_weights
from support.stamps import a_stamp_spec
from support.waiting import Clock

from farflung.actor.connection.inline import InlineConnection
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.loop import ActorLoop
from farflung.actor.rules import RENEW_S, Heartbeat, Rules
from farflung.actor.worlds.families import opener
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import Evaluation, World
from farflung.common.data.weights import Version
from farflung.common.process.errors import ConfigurationError, EnvironmentFailure, PolicyTooOld
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who
from farflung.common.protocol import wire
from farflung.common.protocol.messages import State

STARTED = Clock().now


class Stage:
    """A loop, and what stops it.

    `each(stage)` is called after every turn, and it ends after 2,000 of them.
    """

    def __init__(
        self, clock: Any, wire: Any, learner: Any, each: Callable[["Stage"], None], **options: Any
    ) -> None:
        self.stop, self.who, self.clock = Stop(), Who("actor", "a"), clock
        environments, evaluates = options.pop("environments", 1), options.pop("evaluates", False)
        self.client = PolicyClient("p", "a", environments, evaluates)
        self.transport = wire(self.client, learner, clock, self._turn)
        self.turns = 0
        self._each = each
        watchdog = options.pop("watchdog", None) or Watchdog(0.0)
        open_world = opener(
            environments, Surroundings(self.client.problem, clock.wait, clock, watchdog.beat)
        )
        connection = InlineConnection(self.client, self.transport, clock)
        rules = Rules(evaluates=evaluates, **options)
        self.loop = ActorLoop(connection, open_world, rules, self.stop, watchdog, self.who, clock)
        try:
            self.loop.run()
        finally:
            self.stop.close()

    @property
    def learner(self) -> Any:
        """Return the learner that the actor has now."""
        return self.transport.learner

    def _turn(self, number: int) -> None:
        self.turns = number
        self._each(self)
        assert number < 2000, "it never ends"


class Spy(Watchdog):
    """A watchdog that knows whether it watches."""

    inside = False

    def __enter__(self) -> Watchdog:
        self.inside = True
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        self.inside = False
        super().__exit__(*error)


def watched(
    function: Callable[..., Any], name: str, watchdog: Spy, seen: list[tuple[str, bool]]
) -> Callable[..., Any]:
    """Return the same function, which notes whether the watchdog watches."""

    def noting(*arguments: Any, **options: Any) -> Any:
        seen.append((name, watchdog.inside))
        return function(*arguments, **options)

    return noting


@pytest.fixture
def play() -> Callable[..., Stage]:
    """Return a function that runs a loop to its end."""
    return lambda learner, each, **options: Stage(
        Clock(0.001), DoubleTransport, learner, each, **options
    )


def enough(parcels: int) -> Callable[[Stage], None]:
    """Stop when the learner has so many parcels."""

    def each(stage: Stage) -> None:
        if len(stage.learner.accepted) >= parcels:
            stage.stop.set("enough")

    return each


def stamps(parcels: list[Parcel]) -> list[tuple[int, int, int]]:
    """Return episode, first step and last step of each trajectory."""
    found = []
    for parcel in parcels:
        frames = np.split(parcel.columns["observations"], np.cumsum(parcel.lengths + 1)[:-1])
        found += [(int(frame[0, 1]), int(frame[0, 2]), int(frame[-1, 2])) for frame in frames]
    return found


class TestCollecting:
    """Windows become parcels."""

    def test_windows_follow_each_other(self, play: Callable[..., Stage]) -> None:
        """Episodes of 1, 6 and 2 steps in windows of 4.

        Every step is there once, and knows its version.
        """
        stage = play(LearnerDouble(a_stamp_spec()), enough(3))
        assert stamps(stage.learner.parcels)[:5] == [
            (0, 0, 1),
            (1, 0, 3),
            (1, 3, 6),
            (2, 0, 1),
            (2, 1, 2),
        ]
        assert {parcel.version for parcel in stage.learner.parcels} == {(1, 1)}
        assert stage.learner.parcels[1].endings.tolist() == [Ending.TRUNCATED, Ending.OPEN]
        assert stage.who.version == "1.1"
        assert stage.client.outbox.ledger.balanced

    def test_weights_are_swapped_between_windows(
        self,
        play: Callable[..., Stage],
    ) -> None:
        """Version 2 likes action 3: a window has either zeros or threes."""

        def each(stage: Stage) -> None:
            if len(stage.learner.accepted) == 2 and stage.learner.publisher.newest.number == 1:
                stage.learner.publisher.publish(some_weights(stage.learner.spec, 2, best=3))
            enough(5)(stage)

        stage = play(LearnerDouble(a_stamp_spec()), each)
        seen = [
            (parcel.version.number, set(parcel.columns["actions"].tolist()))
            for parcel in stage.learner.parcels
        ]
        assert seen[0] == (1, {0})
        assert seen[-1] == (2, {3})
        assert all(pair in ((1, {0}), (2, {3})) for pair in seen)
        assert stage.who.version == "1.2"

    def test_a_new_run_is_collected_for_from_its_beginning(
        self,
        play: Callable[..., Stage],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """The loop uses the new run's horizon and new environments.

        No step of the run before gets into it.
        """
        learners = [
            LearnerDouble(a_stamp_spec(), learner_id=1),
            LearnerDouble(a_stamp_spec(run="s", horizon=9, evaluation=Evaluation()), learner_id=2),
        ]

        def each(stage: Stage) -> None:
            if stage.learner is learners[0] and len(stage.learner.accepted) == 2:
                stage.transport.learner = learners[1]
            elif stage.learner is learners[1]:
                enough(2)(stage)

        play(learners[0], each)
        assert stamps(learners[1].parcels)[:2] == [(0, 0, 1), (1, 0, 6)]
        assert [parcel.rows for parcel in learners[1].parcels] == [9, 9]
        assert "another run is at this address" in caplog.text
        assert learners[1].receiver.inbox.ledger.refused == {}

    def test_without_credit_it_waits_and_says_so(self, play: Callable[..., Stage]) -> None:
        """Pacing holds the loop back; its longest step does not include the wait."""
        learner = LearnerDouble(a_stamp_spec())
        learner.room = 0

        def each(stage: Stage) -> None:
            if stage.turns == 200:
                assert learner.receiver.seen["a"].counters["waits"] == 1
                assert learner.receiver.seen["a"].counters["longest_step_s"] < 0.1
                assert len(learner.accepted) <= 2
                learner.room = 1 << 20
            enough(4)(stage)

        stage = play(learner, each)
        assert len(learner.accepted) == 4
        assert stage.turns > 200

    @pytest.mark.parametrize("part", ["room", "delivery", "learner"])
    def test_time_is_counted_as_what_it_went_to(
        self, play: Callable[..., Stage], part: str
    ) -> None:
        """A learner without room, one that keeps nothing yet, one without weights."""
        learner = LearnerDouble(a_stamp_spec(), versions=0 if part == "learner" else 1)

        def each(stage: Stage) -> None:
            if stage.turns == 50:
                learner.room = 0 if part == "room" else 8
            if stage.turns == 50 and part == "delivery":
                learner.endpoint.settle = lambda: 0  # type: ignore[method-assign]
            if stage.turns == 300:
                stage.stop.set("enough")

        stage = play(learner, each)
        seconds = stage.client.work.seconds
        waits = {name: seconds[name] for name in ("room", "delivery", "learner")}
        assert max(waits, key=lambda name: waits[name]) == part
        assert waits[part] > 0.8 * sum(waits.values()) > 10
        assert (seconds["environment"] > 0) is (part != "learner")
        assert sum(seconds.values()) == pytest.approx(stage.clock.now - STARTED, abs=0.2)

    def test_it_logs_a_line_a_minute(
        self, play: Callable[..., Stage], caplog: pytest.LogCaptureFixture
    ) -> None:
        """Also while it waits: silence would look like a hang."""
        caplog.set_level("INFO")
        learner = LearnerDouble(a_stamp_spec())

        def each(stage: Stage) -> None:
            if stage.turns == 100:
                learner.room = 0
            if stage.turns in (50, 150):
                stage.clock.wait(60.0)
            if stage.turns == 200:
                stage.stop.set("enough")

        stage = play(learner, each)
        lines = [text for text in caplog.messages if "in the last minute" in text]
        assert len(lines) == 2
        counted = sum(int(line.split()[1].replace(",", "")) for line in lines)
        assert 0 < counted <= stage.client.work.steps

    def test_with_a_full_outbox_it_waits_too(self, play: Callable[..., Stage]) -> None:
        """The window stays in hand until there is room."""
        refusals = iter((False, False))

        def each(stage: Stage) -> None:
            offer = stage.client.outbox.offer
            if stage.turns == 1:
                stage.client.outbox.offer = lambda *item: (
                    next(refusals, None) is None and offer(*item)
                )  # type: ignore[method-assign]
            enough(1)(stage)

        stage = play(LearnerDouble(a_stamp_spec()), each)
        assert stamps(stage.learner.parcels) == [(0, 0, 1), (1, 0, 3)]

    def test_a_window_in_which_every_step_failed_is_not_sent(
        self,
        play: Callable[..., Stage],
    ) -> None:
        """It has no rows. The fifth failure is the last."""
        worlds.Faulty.counts.clear()
        learner = LearnerDouble(
            a_stamp_spec(horizon=1, world=World("toys/Faulty-v0", {"steps": list(range(9))}))
        )
        with pytest.raises(EnvironmentFailure, match="5 times"):
            play(learner, lambda stage: None)
        assert learner.receiver.inbox.ledger.received == 0

    def test_all_seats_are_counted(self, play: Callable[..., Stage]) -> None:
        """Three environments, four steps in a window: twelve rows in a parcel; and the episodes."""
        stage = play(LearnerDouble(a_stamp_spec()), enough(2), environments=3)
        assert [parcel.rows for parcel in stage.learner.parcels] == [12, 12]
        assert stage.client.work.steps == 24
        assert stage.client.work.episodes == 6


class TestBeginning:
    """Until there is something to do."""

    def test_it_waits_for_a_learner(self, play: Callable[..., Stage]) -> None:
        """As long as it takes; it ends when told to."""
        learner = LearnerDouble(a_stamp_spec())
        learner.due = lambda now, client=None: []

        def each(stage: Stage) -> None:
            if stage.turns == 400:
                stage.stop.set("enough")

        assert play(learner, each).turns >= 400

    @pytest.mark.parametrize("evaluates", [False, True])
    def test_a_watchdog_looks_on_while_worlds_are_made_and_reset(
        self,
        play: Callable[..., Stage],
        monkeypatch: pytest.MonkeyPatch,
        evaluates: bool,
    ) -> None:
        """Otherwise a simulator that hangs at its start would hold the actor for ever.

        The watchdog does not watch while the loop waits for credit.
        """
        watchdog, seen = Spy(0.0), []
        for name in ("__init__", "reset", "step"):
            monkeypatch.setattr(
                worlds.Stamp, name, watched(getattr(worlds.Stamp, name), name, watchdog, seen)
            )
        stage = play(
            LearnerDouble(a_stamp_spec(evaluation=Evaluation(1, 1))),
            enough(1),
            evaluates=evaluates,
            watchdog=watchdog,
        )
        assert stage.learner.accepted
        assert {"__init__", "reset", "step"} == {name for name, _ in seen}
        assert all(inside for _, inside in seen)
        assert not watchdog.inside

    def test_only_allowed_worlds_are_made(self, play: Callable[..., Stage]) -> None:
        """--allow-env names them; without it, any registered one is."""
        with pytest.raises(
            ConfigurationError,
            match="the learner asks for toys/Stamp-v0, which --allow-env does not name",
        ):
            play(LearnerDouble(a_stamp_spec()), enough(1), allowed=("CartPole-v1",))
        assert play(
            LearnerDouble(a_stamp_spec()), enough(1), allowed=("CartPole-v1", "toys/Stamp-v0")
        ).learner.accepted


class TestEnding:
    """The loop ends."""

    def test_it_stops_within_a_window(self, play: Callable[..., Stage]) -> None:
        """However long that is; what was played of it is left behind."""

        def each(stage: Stage) -> None:
            if stage.client.newest.joined and stage.turns > 5:
                stage.stop.set("enough")

        stage = play(LearnerDouble(a_stamp_spec(horizon=1_000_000)), each)
        assert not stage.learner.accepted

    @pytest.mark.parametrize("once", [True, False])
    def test_once_means_until_the_run_is_over(self, play: Callable[..., Stage], once: bool) -> None:
        """Else it waits for the next run."""

        def each(stage: Stage) -> None:
            if len(stage.learner.accepted) >= 2:
                stage.learner.publisher.state = State.STOP
            if stage.turns == 300:
                stage.stop.set("the test is over")

        stage = play(LearnerDouble(a_stamp_spec()), each, once=once)
        assert stage.stop.reason == ("the run is over" if once else "the test is over")

    def test_once_waits_for_a_learner_that_was_stopped(self, play: Callable[..., Stage]) -> None:
        """Its run is not over.

        The next life of it, of a higher epoch, is collected for by the same actor, and then ends
        it.
        """
        lives = [
            LearnerDouble(a_stamp_spec(), learner_id=1),
            LearnerDouble(a_stamp_spec(), epoch=2, learner_id=2),
        ]

        def each(stage: Stage) -> None:
            if stage.learner is lives[0] and len(stage.learner.accepted) >= 2:
                stage.learner.publisher.state = State.AWAY
            if stage.turns == 300:
                stage.transport.learner = lives[1]
            if len(lives[1].accepted) >= 2:
                stage.learner.publisher.state = State.STOP

        stage = play(lives[0], each, once=True)
        assert stage.stop.reason == "the run is over"
        assert stage.turns > 300
        assert len(lives[1].accepted) >= 2

    @pytest.mark.parametrize(("once", "code"), [(True, 0), (False, 69)])
    def test_patience_ends(
        self,
        play: Callable[..., Stage],
        once: bool,
        code: int,
    ) -> None:
        """A learner that falls silent may have ended unheard.

        For an actor of one run that is no failure, for any other it is.
        """
        fell_silent_at = 0.0

        def each(stage: Stage) -> None:
            nonlocal fell_silent_at
            if len(stage.learner.accepted) >= 2 and not fell_silent_at:
                fell_silent_at = stage.clock.now
                stage.learner.due = lambda now, client=None: []

        stage = play(
            LearnerDouble(a_stamp_spec()), each, once=once, heartbeat=Heartbeat(patience_s=20.0)
        )
        assert (stage.stop.reason, stage.stop.exit_code) == ("no learner answers at double", code)
        assert 20.0 <= stage.clock.now - fell_silent_at < 30.0  # it is noticed after 8 s


class TestEvaluating:
    """An actor that only plays the greedy episodes."""

    def test_episodes_are_played_whenever_enough_was_learned(
        self,
        play: Callable[..., Stage],
    ) -> None:
        """Every 100 steps.

        Under versions 1 (0 steps), 3 (100 steps) and 4 (250 steps), not under 2 (99 steps).
        """
        learner = LearnerDouble(a_stamp_spec(evaluation=Evaluation(100, 3)))
        due = iter(((2, 99), (3, 100), (4, 250)))

        def each(stage: Stage) -> None:
            if stage.turns % 40 == 0 and (version := next(due, None)) is not None:
                learner.publisher.publish(some_weights(learner.spec, version[0], steps=version[1]))
            enough(3)(stage)

        stage = play(learner, each, evaluates=True, environments=2)
        assert [parcel.version.number for parcel in learner.parcels] == [1, 3, 4]
        assert all(parcel.evaluation and parcel.rows == 0 for parcel in learner.parcels)
        assert [len(parcel.results.returns) for parcel in learner.parcels] == [3, 3, 3]
        assert learner.receiver.seen["a"].evaluates
        assert stage.who.version == "1.4"

    def test_it_reports_the_version_that_it_plays_while_newer_ones_come(
        self, play: Callable[..., Stage]
    ) -> None:
        """So the learner keeps those weights until the result is there."""
        learner = LearnerDouble(a_stamp_spec(evaluation=Evaluation(100, 3)))
        named: list[Version] = []
        learner.receiver.on_evaluating = named.append

        def each(stage: Stage) -> None:
            if stage.turns % 40 == 0 and stage.turns < 200:
                number = 1 + stage.turns // 40
                learner.publisher.publish(some_weights(learner.spec, number, steps=1))
            if stage.turns == 400:
                stage.stop.set("the test is over")

        stage = play(learner, each, evaluates=True, environments=2)
        assert set(named) == {Version(1, 1)}
        assert stage.client.weights is not None
        assert stage.client.weights.version == Version(1, 5)

    def test_without_a_wish_nothing_is_played(self, play: Callable[..., Stage]) -> None:
        """It stays, for the next run may want it."""

        def each(stage: Stage) -> None:
            if stage.turns == 100:
                stage.stop.set("the test is over")

        assert not play(LearnerDouble(a_stamp_spec()), each, evaluates=True).learner.accepted

    def test_it_stops_within_an_evaluation(self, play: Callable[..., Stage]) -> None:
        """However long that is."""

        def each(stage: Stage) -> None:
            if stage.turns == 20:
                stage.stop.set("the test is over")

        assert not play(
            LearnerDouble(a_stamp_spec(evaluation=Evaluation(1, 1_000_000))), each, evaluates=True
        ).learner.accepted


class TestAge:
    """A policy that is known to be old."""

    @pytest.fixture
    def forgetful(self) -> Any:
        """Return a learner that announces version 2 after two parcels and loses all weights."""
        learner = LearnerDouble(a_stamp_spec(evaluation=Evaluation(1, 1)))
        due = learner.due

        def lossy(now: float, client: PolicyClient | None = None) -> list[tuple[bytes, bytes]]:
            if len(learner.accepted) == 2 and learner.publisher.newest.number == 1:
                learner.publisher.publish(some_weights(learner.spec, 2))
            messages = due(now, client)
            lost = learner.publisher.newest.number == 2
            return [
                message
                for message in messages
                if not (lost and wire.open_frame(message[1]).kind is wire.Kind.WEIGHTS)
            ]

        learner.due = lossy
        return learner

    @pytest.mark.parametrize("evaluates", [False, True])
    def test_an_actor_that_cannot_get_a_newer_one_ends(
        self, forgetful: Any, play: Callable[..., Stage], evaluates: bool
    ) -> None:
        """It has asked for snapshots before; the exit code says that another start may help."""
        stages: list[Stage] = []

        def each(stage: Stage) -> None:
            stages[:] = [stage]
            if evaluates and len(stage.learner.accepted) == 1:
                stage.learner.accepted *= 2  # its episodes are due once
            if stage.learner.publisher.newest.number == 2:
                stage.transport.clock.wait(0.2)

        with pytest.raises(
            PolicyTooOld,
            match=r"for 10 s a newer policy than version 1\.1 .* --max-policy-age is 10",
        ) as caught:
            play(forgetful, each, max_policy_age_s=10.0, evaluates=evaluates)
        assert caught.value.exit_code == 75
        assert stages[0].client.tracker.nonce is not None  # a question stands

    def test_without_a_limit_it_collects_on(
        self, forgetful: Any, play: Callable[..., Stage]
    ) -> None:
        """0 bears any age."""

        def each(stage: Stage) -> None:
            if stage.client.tracker.outdated_s(stage.transport.clock.now) > 400:
                stage.stop.set("enough")
            if stage.learner.publisher.newest.number == 2:
                stage.transport.clock.wait(2.0)

        assert play(forgetful, each).client.weights.version.number == 1


def test_the_heartbeat_is_renewed_only_while_a_learner_sends(tmp_path: Path):
    """It appears with the first word, is renewed every few seconds, and grows old in silence."""
    file = tmp_path / "acting"
    contact = Heartbeat(heartbeat=str(file))
    contact.lost(False, 0.0)
    assert not file.exists()
    contact.lost(True, 1.0)
    os.utime(file, (0, 0))
    contact.lost(True, 1.0 + RENEW_S - 0.1)
    assert file.stat().st_mtime == 0
    contact.lost(False, 1.0 + RENEW_S)
    assert file.stat().st_mtime == 0
    contact.lost(True, 1.1 + RENEW_S)
    assert file.stat().st_mtime > 0


def test_the_heartbeat_of_a_former_life_does_not_count(tmp_path: Path):
    """A container that is started again keeps its files."""
    file = tmp_path / "acting"
    file.touch()
    Heartbeat(heartbeat=str(file))
    assert not file.exists()


def test_a_heartbeat_that_cannot_be_written_ends_the_actor(tmp_path: Path):
    """Otherwise a health check would end it again and again, without a reason in any log."""
    contact = Heartbeat(heartbeat=str(tmp_path / "missing" / "acting"))
    with pytest.raises(
        ConfigurationError, match=r"--heartbeat .*acting cannot be written: No such file"
    ):
        contact.lost(True, 0.0)


def test_patience_ends_after_one_long_silence_not_after_several_short_ones():
    """Each message starts the count again."""
    contact = Heartbeat(patience_s=10.0)
    assert not contact.lost(False, 0.0)
    assert not contact.lost(False, 9.9)
    assert not contact.lost(True, 9.95)
    assert not contact.lost(False, 10.0)
    assert not contact.lost(False, 19.9)
    assert contact.lost(False, 20.0)


def test_without_a_number_patience_has_no_end():
    """An actor waits for its learner, however long that takes."""
    contact = Heartbeat()
    contact.lost(False, 0.0)
    assert not contact.lost(False, 1e9)
