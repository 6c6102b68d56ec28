"""The clock of a fixed rate, with numbers worked by hand: 4 Hz, so periods of 0.25 s."""

import pytest

from farflung.actor.realtime.clock import Clock


def test_steps_are_due_on_a_grid() -> None:
    """The hundredth step is due after 25 s, however late each of those before it began."""
    clock = Clock(4.0, now=10.0)
    for number in range(100):
        assert clock.due == 10.0 + number / 4
        assert clock.begin(clock.due + 0.0625) == 0.0625
        assert clock.end(clock.due + 0.125) == 0.0
    assert (clock.steps, clock.missed, clock.skipped) == (100, 0, 0)
    assert clock.lateness.worst_s == 0.0625


def test_step_that_overruns_a_little_is_followed_at_once() -> None:
    """It ends at 0.3125, in the next period: that step begins 0.0625 late, and none is lost."""
    clock = Clock(4.0, now=0.0)
    clock.begin(0.0)
    assert clock.end(0.3125) == 0.0625
    assert clock.due == 0.25
    assert clock.begin(0.3125) == 0.0625
    assert clock.end(0.4375) == 0.0
    assert clock.due == 0.5
    assert (clock.missed, clock.skipped) == (1, 0)


def test_missed_periods_are_left_out_and_not_made_up_for() -> None:
    """A step of 0.875 s ends in the fourth period: the second and third had none."""
    clock = Clock(4.0, now=0.0)
    clock.begin(0.0)
    assert clock.end(0.875) == 0.625
    assert clock.begin(0.875) == 0.625
    assert (clock.missed, clock.skipped) == (1, 2)
    assert clock.end(1.0) == 0.0
    assert clock.due == 1.0
    assert clock.begin(1.0) == 0.0
    assert clock.lateness.worst_s == 0.625


def test_process_that_was_stopped_counts_its_whole_delay() -> None:
    """It wakes at 10.125, 40.5 periods late: 40 are left out, and half a period is left."""
    clock = Clock(4.0, now=0.0)
    assert clock.begin(10.125) == 10.125
    assert clock.skipped == 40
    assert clock.end(10.25) == 0.0
    assert clock.due == 10.25


def test_late_step_misses_its_deadline_although_it_is_short() -> None:
    """It begins 0.1875 late and takes 0.125: that is 0.0625 more than its period had left."""
    clock = Clock(4.0, now=0.0)
    clock.begin(0.1875)
    assert clock.end(0.3125) == 0.0625
    assert clock.missed == 1


def test_restart_forgives_the_time_before_it() -> None:
    """After a wait the next step is due now; the counts stay."""
    clock = Clock(4.0, now=0.0)
    clock.begin(0.0)
    clock.end(0.5)
    clock.restart(100.0)
    assert clock.due == 100.0
    assert clock.begin(100.0) == 0.0
    assert (clock.steps, clock.missed, clock.skipped) == (2, 1, 0)


def test_waking_early_is_not_late() -> None:
    """A timer may fire a moment too soon."""
    clock = Clock(4.0, now=1.0)
    assert clock.begin(0.9999) == 0.0
    assert clock.due == 1.0


@pytest.mark.parametrize("rate_hz", [50.0, 200.0, 333.3])
def test_nothing_drifts_at_rates_without_an_exact_period(rate_hz: float) -> None:
    """After a thousand steps the next one is due where a division says."""
    clock = Clock(rate_hz, now=0.0)
    for _ in range(1000):
        clock.begin(clock.due)
        clock.end(clock.due)
    assert clock.due == pytest.approx(1000 / rate_hz, abs=1e-9)
    assert (clock.missed, clock.skipped, clock.lateness.worst_s) == (0, 0, 0.0)
