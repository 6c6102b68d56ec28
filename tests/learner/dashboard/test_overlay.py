"""Several runs over one another, with numbers worked by hand."""

import numpy as np

from farflung.learner.dashboard.overlay import overlay


def points(*pairs: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Return a curve through these points."""
    return np.array([at for at, _ in pairs]), np.array([value for _, value in pairs])


def test_mean_and_range_are_over_runs_that_got_that_far() -> None:
    """One run ends at 2; beyond it a single run has no mean."""
    found = overlay(
        {
            "long": points((0.0, 0.0), (4.0, 8.0)),
            "short": points((0.0, 10.0), (2.0, 10.0)),
            "none": points(),
        },
        points=5,
    )
    assert found["at"] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert found["runs"] == {
        "long": [0.0, 2.0, 4.0, 6.0, 8.0],
        "short": [10.0, 10.0, 10.0, None, None],
    }
    assert found["mean"] == [5.0, 6.0, 7.0, None, None]
    assert found["low"] == [0.0, 2.0, 4.0, None, None]
    assert found["high"] == [10.0, 10.0, 10.0, None, None]
    assert found["count"] == [2, 2, 2, 1, 1]


def test_runs_without_the_curve_are_left_out() -> None:
    """Nothing at all is an empty chart."""
    assert overlay({"a": points()})["at"] == []
    assert overlay({"a": points((3.0, 1.0))})["runs"] == {"a": [1.0]}
