"""The pace of sessions at a fixed rate: their periods, by hand."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from support.waiting import Clock, eventually

from farflung.actor.connection.port import Newest, Work
from farflung.actor.realtime.pace import Pace
from farflung.actor.session import ActorSession, WithoutLearner
from farflung.common.data.weights import Weights
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol.ledger import Ledger
from farflung.common.protocol.messages import State


class Still:
    """A connection on which nothing comes."""

    newest = Newest(None, None, 0)

    def __init__(self) -> None:
        self.problems: list[tuple[str, str]] = []
        self.work = Work()
        self.status = SimpleNamespace(listens=False, ledger=Ledger(), state=State.RUN)

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


def test_a_session_may_stop_without_a_learner(clock: Clock) -> None:
    """By hand: periods are counted in which no step begins, until a learner or the end is there."""
    connection: Any = Still()
    pace = Pace(10.0, connection, clock, without=WithoutLearner.STOP)
    for _ in range(3):
        clock.wait(pace.left_s())
        assert pace.begin() is None
    clock.wait(pace.left_s())
    connection.status.listens = True
    assert pace.begin() == pytest.approx(0.0, abs=1e-9)
    connection.status.listens = False
    clock.wait(pace.left_s())
    assert pace.begin() is None
    connection.status.state = State.STOP
    clock.wait(pace.left_s())
    assert pace.begin() is not None
    assert [pace.timing[name] for name in ("steps", "skipped")] == [2, 0]
    pace.close()


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
    with pytest.raises(ConfigurationError, match="open it with rate=HZ, and without evaluate"):
        ActorSession("127.0.0.1:9", without_learner=abs)
    with pytest.raises(ConfigurationError, match="at a fixed rate, the sockets have a thread"):
        ActorSession("127.0.0.1:9", rate=50.0, threaded=False)
