"""Sessions at a fixed rate: their periods, and the weights that are prepared beside them."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from support.learner_double import LearnerDouble
from support.makers import some_weights
from support.stamps import a_stamp_spec
from support.waiting import Clock, eventually

from farflung.actor.acting.policy import Policy
from farflung.actor.connection.port import Newest, Work
from farflung.actor.realtime.pace import Pace
from farflung.actor.session import ActorSession, AsyncActorSession
from farflung.common.data.weights import Weights
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol.ledger import Ledger
from farflung.common.protocol.outbox import WhenFull

Serve = Callable[..., Any]


class Still:
    """A connection on which nothing comes."""

    newest = Newest(None, None, 0)

    def __init__(self) -> None:
        self.problems: list[tuple[str, str]] = []
        self.work, self.status = Work(), SimpleNamespace(listens=False, ledger=Ledger())

    def problem(self, kind: str, text: str) -> None:
        """Note a problem."""
        self.problems.append((kind, text))

    def exchange(self, timeout_s: float) -> None:
        """Wait."""
        threading.Event().wait(timeout_s)


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the process of the tests as it is."""
    monkeypatch.setattr("farflung.actor.realtime.pace.keep_pauses_short", lambda: None)


@pytest.fixture
def clock() -> Clock:
    """A clock that a test moves."""
    return Clock()


@pytest.fixture
def pace(clock: Clock) -> Iterator[Pace]:
    """Ten periods a second."""
    made = Pace(10.0, Still(), clock)  # type: ignore[arg-type]
    yield made
    made.close()


def test_a_step_lasts_until_the_next_one_is_asked_for(pace: Pace, clock: Clock) -> None:
    """By hand: 30 ms of work leave 70; after 250 ms one period is left out, as 150 ms late."""
    assert (pace.left_s(), pace.begin()) == (0.0, 0.0)
    clock.wait(0.03)
    assert pace.left_s() == pytest.approx(0.07)
    clock.wait(0.07)
    assert pace.begin() == pytest.approx(0.0, abs=1e-9)
    clock.wait(0.25)
    assert pace.left_s() == 0.0
    assert pace.begin() == pytest.approx(0.15)
    timing = pace.timing
    assert [timing[name] for name in ("steps", "missed", "skipped", "alone")] == [3, 1, 1, 3]
    assert pace.summary.startswith("at 10 Hz: 3 steps, 1 over their period, 1 periods left out")


def test_a_step_that_is_too_long_is_named_with_its_parts(pace: Pace, clock: Clock) -> None:
    """By hand: of 250 ms, 60 are ours and 40 of them inference; the other 190 are the robot's."""

    class Slow:
        def load(self, weights: Weights) -> None: ...

        def answer(self, inputs: Any) -> list[Any]:
            clock.wait(0.04)
            return []

    policy = pace.timed(Slow())
    pace.left_s()
    pace.begin()
    asked_at = clock()
    policy.answer({})
    clock.wait(0.02)
    pace.spent(asked_at)
    clock.wait(0.19)
    pace.left_s()
    connection: Any = pace._connection
    eventually(lambda: connection.problems, "the sentence", 20.0)
    assert connection.problems == [
        (
            "rate",
            "step 1 was over after 250.0 ms of its 100.0: woken 0.0 ms late, environment 190.0, "
            "inference 40.0, ours 20.0",
        )
    ]
    assert pace.timing["missed.environment"] == 1


def test_the_time_between_two_episodes_is_no_step(pace: Pace, clock: Clock) -> None:
    """A robot is put back for five seconds: no period is left out, and none is late."""
    pace.left_s()
    pace.begin()
    clock.wait(0.02)
    pace.end_episode()
    clock.wait(5.0)
    assert (pace.left_s(), pace.begin()) == (0.0, 0.0)
    pace.end_episode()
    assert pace.left_s() == pytest.approx(0.1)  # no period comes before its time
    assert [pace.timing[name] for name in ("steps", "missed", "skipped")] == [2, 0, 0]


def test_a_session_at_a_rate_prepares_newer_weights_beside_its_steps(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are acted on from the next window on; the report has the figures."""
    prepared: list[tuple[str, int]] = []
    prepare = Policy.prepare

    def noted(self: Policy, weights: Weights) -> None:
        prepare(self, weights)
        prepared.append((threading.current_thread().name, weights.version.number))

    monkeypatch.setattr(Policy, "prepare", noted)
    served = serve(LearnerDouble(a_stamp_spec()))
    with ActorSession(str(served.address), policy="p", rate=500.0) as session:
        for step in range(100_000):
            assert session.next_period() >= 0.0
            session.act([0, 0, step % 50])
            session.record(1.0, step % 50 == 49, False, [0, 0, step % 50 + 1])
            if step == 10:
                served.double.endpoint.publish(some_weights(served.double.spec, 2))
            if session.version.number == 2 and "rate.steps" in session._work.counters:
                break
        assert not session.alone
        assert session.timing["steps"] == step + 1
        assert session._windows._patience_s == 0.0
        assert session._connection._client.outbox.when_full is WhenFull.DROP_OLDEST  # type: ignore
    assert ("beside", 2) in prepared
    assert session.ledger.acknowledged.rows == step + 1
    eventually(
        lambda: "beside" not in {thread.name for thread in threading.enumerate()}, "its end", 20.0
    )


def test_an_event_loop_keeps_the_rate(serve: Serve) -> None:
    """Other tasks run between two periods."""
    served = serve(LearnerDouble(a_stamp_spec()))

    async def loop() -> float:
        async with AsyncActorSession(str(served.address), policy="p", rate=200.0) as session:
            for step in range(8):
                await session.next_period()
                await session.act([0, 0, step])
                session.record(1.0, False, False, [0, 0, step + 1])
            return session.timing["steps"]

    assert asyncio.run(asyncio.wait_for(loop(), 60.0)) == 8
    assert sum(parcel.rows for parcel in served.take(2)) == 8


@pytest.mark.parametrize("rate", [-1.0, float("nan"), 1e6])
def test_a_rate_that_no_clock_has_is_refused(rate: float) -> None:
    """Before anything is opened."""
    with pytest.raises(ConfigurationError, match="choose one up to 10,000 Hz"):
        ActorSession("127.0.0.1:9", rate=rate)


def test_a_session_without_a_rate_has_no_periods() -> None:
    """The sentence names the option; sockets in the thread of the steps are refused with one."""
    session = ActorSession("127.0.0.1:9", wait=False)
    with pytest.raises(ValueError, match="open one with rate=HZ"):
        session.next_period()
    session.close(0.0)
    with pytest.raises(ConfigurationError, match="at a fixed rate, the sockets have a thread"):
        ActorSession("127.0.0.1:9", rate=50.0, threaded=False)
