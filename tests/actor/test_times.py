"""The time of an actor by its parts, on a clock that the test moves."""

import pytest

from farflung.actor.connection.port import Work
from farflung.actor.times import Part, Times


class Clock:
    """A clock that stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def step(times: Times, clock: Clock, **parts: float) -> None:
    """Take a step that is timed."""
    times.begin()
    for part, seconds in parts.items():
        clock.now += seconds
        times.lap(Part(part))


def test_steps_are_shared_out_as_in_the_one_that_was_timed() -> None:
    """One of four steps was timed: 1 ms, 2 ms and 1 ms of 16 ms in all."""
    clock, seconds = Clock(), {}
    times = Times(seconds, clock)
    step(times, clock, inference=0.001, environment=0.002, recording=0.001)
    clock.now += 0.012
    times.played(0.016)
    assert seconds["inference"] == pytest.approx(0.004)
    assert seconds["environment"] == pytest.approx(0.008)
    assert seconds["recording"] == pytest.approx(0.004)
    step(times, clock, environment=2.0)  # the step before has no part in it
    times.played(2.0)
    assert seconds["environment"] == pytest.approx(2.008)


def test_all_time_has_a_part() -> None:
    """A turn of 5 s: 2 s played, 1.5 s waited; the rest was packed."""
    clock, seconds = Clock(), {}
    times = Times(seconds, clock)
    step(times, clock, environment=2.0)
    times.played(2.0)
    clock.now += 3.0
    times.waited(Part.ROOM, 1.5)
    times.turned()
    assert seconds["packing"] == pytest.approx(1.5)
    assert sum(seconds.values()) == pytest.approx(5.0)
    clock.now += 1.0
    times.waited(Part.DELIVERY, 1.0)
    times.turned()
    assert seconds["packing"] == pytest.approx(1.5)


def test_reports_carry_them() -> None:
    """Under names of their own, beside the other counters."""
    work = Work(steps=3)
    assert "seconds.room" not in work.counters
    Times(work.seconds, Clock()).waited(Part.ROOM, 1.5)
    assert work.counters["steps"] == 3
    assert work.counters["seconds.room"] == 1.5
    assert {f"seconds.{part}" for part in Part} < work.counters.keys()
