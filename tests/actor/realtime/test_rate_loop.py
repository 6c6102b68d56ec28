"""The step thread at a fixed rate, against a learner's own sockets. No test asserts a duration."""

import logging
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from support import worlds
from support.learner_double import LearnerDouble
from support.makers import some_weights
from support.stamps import a_stamp_spec
from support.waiting import eventually

from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.threaded import ThreadedConnection
from farflung.actor.realtime import processor
from farflung.actor.realtime.alone import WithoutLearner
from farflung.actor.realtime.connection import connect
from farflung.actor.realtime.loop import RateLoop
from farflung.actor.rules import Rules
from farflung.actor.worlds.families import opener
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.data.spec import Rounds
from farflung.common.net import sockets
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who
from farflung.common.protocol.messages import State
from farflung.common.protocol.outbox import FULL, WhenFull

pytestmark = pytest.mark.slow

Serve = Callable[..., Any]


class Actor:
    """An actor at a rate, in a thread of this process."""

    def __init__(self, context: Any, served: Any, **options: Any) -> None:
        self.stop, self.error = Stop(), None
        waiting = options.pop("waiting_bytes", 1 << 20)
        self.client = PolicyClient(
            "p", "a", 1, when_full=WhenFull.DROP_OLDEST, waiting_bytes=waiting
        )
        self.connection: ThreadedConnection = connect(context, served.address, self.client)
        around = Surroundings(self.connection.problem, self.stop.wait, lambda: 0.0)
        self.loop = RateLoop(
            self.connection,
            opener(1, around),
            options.pop("rules", Rules()),
            self.stop,
            Watchdog(0.0),
            Who("actor", "a"),
            **({"rate_hz": 200.0} | options),
        )
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.loop.run()
        except Exception as error:
            self.error = error

    @property
    def timing(self) -> Any:
        """The figures of its reports."""
        return self.connection.work.timing

    def end(self) -> None:
        """Stop it, and let it say goodbye."""
        self.stop.set("the test is over")
        self.thread.join(20.0)
        self.connection.close("the test is over", 0.0)


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the process of the tests as it is.

    No thread of it waits for an idle processor: other tests may take them all.
    """
    monkeypatch.setattr(processor, "busyness", lambda load, processors: "tests run here")
    monkeypatch.setattr("farflung.actor.realtime.loop.keep_pauses_short", lambda: None)


@pytest.fixture
def begin() -> Iterator[Callable[..., Actor]]:
    """Starts actors at a rate, and ends them with the test."""
    made: list[Actor] = []
    with sockets.context() as context:

        def make(served: Any, **options: Any) -> Actor:
            made.append(Actor(context, served, **options))
            return made[-1]

        yield make
        for actor in made:
            actor.end()


def leave(served: Any) -> None:
    """Let the learner say that it is away."""
    served.double.publisher.state = State.AWAY
    served.double.publisher.hurry()


def seen(parcels: list[Any]) -> list[tuple[int, int]]:
    """Return episode and step of each step that these parcels record, in order."""
    found = []
    for parcel in parcels:
        for frames in np.split(parcel.columns["observations"], np.cumsum(parcel.lengths + 1)[:-1]):
            found += [(int(frame[1]), int(frame[2])) for frame in frames[:-1]]
    return found


def test_steps_follow_each_other_under_newer_weights(serve: Serve, begin: Any) -> None:
    """No step is lost between windows; version 2, which likes action 3, is used from a window on.

    Its session was built beside the steps. The report has the figures of the clock.
    """
    served = serve(LearnerDouble(a_stamp_spec()))
    actor = begin(served)
    first = served.take(2)
    served.double.endpoint.publish(some_weights(served.double.spec, 2, best=3))
    later: list[Any] = []
    while not later or later[-1].version.number == 1:
        later += served.take(1)
    steps = seen([*first, *later])
    for (episode, step), after in pairwise(steps):
        assert after in ((episode, step + 1), (episode + 1, 0))
    assert (later[-1].columns["actions"] == 3).all()
    eventually(lambda: actor.timing.get("rate.steps", 0) > len(steps), "figures")
    assert actor.timing["rate.hz"] == 200.0
    assert actor.timing["rate.late_worst_s"] >= actor.timing["rate.late_p50_s"]
    assert actor.loop.summary().startswith("at 200 Hz: ")


def test_what_has_no_room_is_dropped_oldest_first_and_counted(serve: Serve, begin: Any) -> None:
    """The learner takes nothing; the outbox holds two windows, and the books balance."""
    double = LearnerDouble(a_stamp_spec())
    double.room = 0
    served = serve(double)
    actor = begin(served, waiting_bytes=400)
    dropped = eventually(lambda: actor.connection.status.ledger.dropped.get(FULL), "a full outbox")
    assert dropped.rows == 4 * dropped.parcels
    actor.end()
    ledger = actor.connection.status.ledger
    assert ledger.balanced
    assert ledger.dropped[FULL].parcels >= dropped.parcels
    assert ledger.collected.rows <= actor.connection.work.steps < ledger.collected.rows + 4


def test_without_a_learner_it_stops_where_it_was_told_to(serve: Serve, begin: Any) -> None:
    """The learner is away: periods are counted in which no step is taken."""
    served = serve(LearnerDouble(a_stamp_spec()))
    actor = begin(served, without=WithoutLearner.STOP)
    served.take(1)
    leave(served)
    eventually(lambda: actor.timing.get("rate.stopped", 0) > 20, "stopped periods", 30.0)
    steps = actor.connection.work.steps
    eventually(lambda: actor.timing["rate.stopped"] > 60, "more of them")
    assert actor.connection.work.steps == steps
    assert actor.timing["rate.alone"] == 0


def test_without_a_learner_it_goes_on_by_itself(serve: Serve, begin: Any) -> None:
    """Steps under the last policy are counted."""
    served = serve(LearnerDouble(a_stamp_spec()))
    actor = begin(served)
    served.take(1)
    leave(served)
    eventually(lambda: actor.timing.get("rate.alone", 0) > 20, "steps alone", 30.0)
    assert actor.timing["rate.stopped"] == 0


def test_without_a_learner_a_function_acts(serve: Serve, begin: Any) -> None:
    """Its steps reach no learner: what is recorded has the policy's actions, and leads nowhere.

    When the learner is back the policy acts again.
    """
    shown: list[Any] = []

    def hold(seen: Any) -> int:
        shown.append(seen)
        return 3

    served = serve(LearnerDouble(a_stamp_spec()))
    actor = begin(served, without=hold)
    parcels = served.take(1)
    leave(served)
    eventually(lambda: actor.timing.get("rate.alone", 0) > 20, "steps of the function", 30.0)
    assert actor.connection.work.lost_steps >= 20
    served.double.publisher.state = State.RUN
    served.double.publisher.hurry()
    eventually(lambda: actor.connection.status.listens, "the learner", 30.0)
    last = (int(shown[-1][1]), int(shown[-1][2]))
    while seen(parcels)[-1] <= last:
        parcels += served.take(1)
    held = {(int(each[1]), int(each[2])) for each in [*shown]}
    assert not held & {*seen(parcels)}
    assert all((parcel.columns["actions"] == 0).all() for parcel in parcels)
    assert shown[0].shape == (3,)


def test_step_that_overruns_is_named_with_what_it_did(
    serve: Serve, begin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment of 20 ms at 200 Hz: the learner hears of it."""
    step = worlds.Stamp.step

    def slow(self: Any, action: Any) -> Any:
        threading.Event().wait(0.02)
        return step(self, action)

    monkeypatch.setattr(worlds.Stamp, "step", slow)
    served = serve(LearnerDouble(a_stamp_spec()))
    actor = begin(served)
    problems = served.double.receiver.problems
    said = eventually(lambda: next((p for p in [*problems] if "rate: step" in p), ""), "a problem")
    assert "ms of its 5.0: woken " in said
    eventually(lambda: actor.timing.get("rate.missed", 0) >= 3, "missed steps")
    assert actor.timing["rate.skipped"] >= 3
    assert actor.timing["rate.missed.environment"] >= 1


def test_rounds_have_another_clock(serve: Serve, begin: Any) -> None:
    """A learner in the sync mode is refused in a sentence."""
    served = serve(LearnerDouble(a_stamp_spec(rounds=Rounds(1, 1, 0))))
    actor = begin(served)
    eventually(lambda: actor.error, "an end")
    assert isinstance(actor.error, ConfigurationError)
    assert "leave --rate out" in str(actor.error)


def test_error_beside_the_steps_ends_them(
    serve: Serve, begin: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is raised in the step thread, as that of the connection."""
    with caplog.at_level(logging.WARNING):
        monkeypatch.setattr("farflung.actor.acting.policy.Policy.prepare", lambda *_: 1 / 0)
        actor = begin(serve(LearnerDouble(a_stamp_spec())))
        eventually(lambda: actor.error, "an end")
    assert isinstance(actor.error, ZeroDivisionError)
