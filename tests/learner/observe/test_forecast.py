"""The time to the goal, with numbers worked by hand."""

import pytest

from farflung.learner.observe.forecast import Forecast, Trend
from farflung.learner.schedule.goal import parse


def seen(text: str, *moments: dict[str, float | None], steps: int = 0) -> float | None:
    """Return the time left after these values, ten seconds apart."""
    forecast = Forecast(parse(text), steps)
    for number, values in enumerate(moments):
        forecast.look(10.0 * number, values)
    return forecast.seconds_left


def test_a_trend_is_the_slope_of_least_squares() -> None:
    """Values 0, 3, 3 at 0, 1, 2 s: the slope is 1.5. Two values are no trend."""
    trend = Trend()
    trend.add(0.0, 0.0)
    trend.add(0.5, 100.0)  # too soon
    trend.add(1.0, 3.0)
    assert trend.per_second is None
    trend.add(2.0, 3.0)
    assert trend.per_second == pytest.approx(1.5)


def test_steps_are_left_at_their_rate() -> None:
    """100 steps in ten seconds: 800 of 1,000 take 80 s."""
    values = [{"steps": 0.0}, {"steps": 100.0}, {"steps": 200.0}]
    assert seen("", *values, steps=1000) == pytest.approx(80.0)
    assert seen("steps > 300", *values, steps=1000) == pytest.approx(10.0)


def test_an_evaluation_counts_once_however_long_it_stands() -> None:
    """100, 200 and 300 at 0, 10 and 30 s. The slope is 45/7, and 100 more take 15.6 s."""
    values = [{"evaluation": value} for value in (100.0, 200.0, 200.0, 300.0)]
    assert seen("evaluation >= 400", *values) == pytest.approx(100 / (45 / 7))


def test_a_goal_may_be_out_of_sight() -> None:
    """A metric falls, is unknown, or has no trend yet; a limit of steps ends the run all the same.

    Comparisons joined by `and` wait for the last, those joined by `or` for the first.
    """
    falling = [{"evaluation": 30.0 - 10 * n, "steps": 100.0 * n} for n in range(3)]
    assert seen("evaluation >= 400", *falling) is None
    assert seen("return >= 400", *falling) is None
    assert seen("evaluation >= 400", *falling[:2]) is None
    assert seen("evaluation >= 400", *falling, steps=1000) == pytest.approx(80.0)
    assert seen("steps > 300 and evaluation >= 400", *falling) is None
    assert seen("steps > 300 and evaluation <= 0", *falling) == pytest.approx(10.0)
    assert seen("steps > 300 or evaluation >= 400", *falling) == pytest.approx(10.0)


def test_a_goal_that_is_met_has_nothing_left() -> None:
    """Zero, though its trend leads away."""
    assert seen("evaluation >= 5", *[{"evaluation": 10.0 - n} for n in range(3)]) == 0.0
