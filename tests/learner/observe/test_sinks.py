"""An outlet keeps its pace, and never raises."""

import logging

import pytest

from farflung.learner.observe.sinks import StatusSink
from farflung.learner.observe.status import EvaluationStatus, Status


def at(seconds: float, **values: object) -> Status:
    """A status of this moment."""
    return Status(run="r", seconds=seconds, **values)  # type: ignore[arg-type]


def test_an_outlet_writes_at_its_own_pace() -> None:
    """Told four times a second, an outlet of ten seconds writes at once and then every ten."""
    written: list[float] = []
    outlet = StatusSink("lines", lambda status: written.append(status.seconds), 10.0)
    for tick in range(100):
        outlet.show(at(tick / 4))
    assert written == [0.0, 10.0, 20.0]


def test_news_do_not_wait() -> None:
    """A new state or evaluation is written when it comes."""
    written: list[Status] = []
    outlet = StatusSink("lines", written.append, 10.0)
    first = EvaluationStatus(1.0, 20, 3, 1.0)
    for status in (
        at(0),
        at(1),
        at(2, evaluation=first),
        at(3, evaluation=first),
        at(4, evaluation=first, state="away"),
    ):
        outlet.show(status)
    assert [status.seconds for status in written] == [0, 2, 4]


def test_closing_writes_the_last_figures_and_leaves() -> None:
    """Due or not; files and terminal are closed."""
    events: list[object] = []
    outlet = StatusSink(
        "lines", lambda status: events.append(status.seconds), 10.0, lambda: events.append("left")
    )
    outlet.show(at(0))
    outlet.close(at(1))
    assert events == [0, 1, "left"]


def test_what_people_see_cannot_end_a_training(caplog: pytest.LogCaptureFixture) -> None:
    """A full disk is said once and tried again; another trouble is said again."""
    failures: list[Exception | None] = [
        OSError("disk full"),
        OSError("disk full"),
        None,
        ValueError("closed"),
        ValueError("closed"),
    ]
    written = []

    def write(status: Status) -> None:
        failure = failures.pop(0)
        if failure:
            raise failure
        written.append(status.seconds)

    outlet = StatusSink("metrics", write, 1.0)
    with caplog.at_level(logging.WARNING):
        for second in range(4):
            outlet.show(at(second))
        outlet.close(at(9))
    assert written == [2]
    assert [record.getMessage() for record in caplog.records] == [
        "metrics cannot be written, the run goes on: OSError: disk full",
        "metrics cannot be written, the run goes on: ValueError: closed",
    ]
