"""Curves keep their memory, and what they merge stays exact."""

import tracemalloc

import numpy as np
import pytest

from farflung.learner.dashboard.curves import BYTES, NAMES, ROWS, Curves

DAY_S = 86_400


def filled(moments: int, rows: int = 4) -> Curves:
    """Curves with a value of each moment's number, in a small table."""
    curves = Curves(rows=rows)
    for moment in range(moments):
        curves.add(float(moment), 10.0 * moment, {"a": float(moment)})
    return curves


def test_rows_hold_one_moment_each_at_first() -> None:
    """Worked by hand."""
    found = filled(3).table(["a"])
    assert found["time"] == [0.0, 1.0, 2.0]
    assert found["steps"] == [0.0, 10.0, 20.0]
    assert found["curves"]["a"]["mean"] == found["curves"]["a"]["low"] == [0.0, 1.0, 2.0]
    assert (found["generation"], found["rows"]) == (0, 3)


def test_full_table_merges_pairs_and_goes_on() -> None:
    """Seven moments in four rows: (0 1) (2 3) (4 5) and a row that is half full."""
    found = filled(7).table(["a"])
    assert found["generation"] == 1
    assert found["time"] == [1.0, 3.0, 5.0, 6.0]
    assert found["curves"]["a"]["mean"] == [0.5, 2.5, 4.5, 6.0]
    assert found["curves"]["a"]["low"] == [0.0, 2.0, 4.0, 6.0]
    assert found["curves"]["a"]["high"] == [1.0, 3.0, 5.0, 6.0]


def test_merged_means_weigh_each_value_once() -> None:
    """A curve with few values, such as evaluations, has their mean and no other."""
    curves = Curves(rows=2)
    for moment, value in enumerate((10.0, None, None, 40.0)):
        curves.add(moment, moment, {} if value is None else {"a": value})
    curves.add(4, 4, {"a": 7.0})
    found = curves.table(["a"])["curves"]["a"]
    assert (found["mean"], found["low"], found["high"]) == ([25.0, 7.0], [10.0, 7.0], [40.0, 7.0])


def test_curve_without_a_value_there_has_none() -> None:
    """Not a zero, and not a number that is none."""
    curves = Curves()
    curves.add(1, 1, {"a": 1.0, "b": float("nan")})
    curves.add(2, 2, {"b": float("inf")})
    found = curves.table(["a", "b", "unknown"])["curves"]
    assert found == {
        "a": {"mean": [1.0, None], "low": [1.0, None], "high": [1.0, None]},
        "b": {"mean": [None, None], "low": [None, None], "high": [None, None]},
    }
    assert curves.names == ["a"]


def test_time_and_steps_never_go_back() -> None:
    """Charts need places in order: a clock that was set, or a resumed learner, changes nothing."""
    curves = Curves()
    for time, steps in ((5.0, 100.0), (3.0, 80.0), (6.0, 120.0)):
        curves.add(time, steps, {})
    found = curves.table([])
    assert (found["time"], found["steps"]) == ([5.0, 5.0, 6.0], [100.0, 100.0, 120.0])


def test_later_rows_can_be_had_alone() -> None:
    """A page asks for what is new, from the last row that it has on."""
    curves = filled(3)
    assert curves.table(["a"], after=2)["curves"]["a"]["mean"] == [2.0]
    assert curves.table(["a"], after=99)["time"] == []


@pytest.mark.slow
def test_day_of_a_run_stays_within_its_bound() -> None:
    """24 hours, a moment each second, with all curves there can be: nothing grows."""
    generator = np.random.default_rng(0)
    names = [f"curve {n}" for n in range(NAMES + 20)]
    few = generator.normal(size=DAY_S)
    tracemalloc.start()
    curves = Curves()
    for moment in range(DAY_S):
        figures = names if moment % 1000 == 0 else names[:2]
        curves.add(float(moment), float(moment), dict.fromkeys(figures, few[moment]))
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert curves.nbytes <= BYTES < 2.4e6
    assert used < BYTES + 100_000
    assert ROWS // 2 <= len(curves) <= ROWS
    assert curves.left_out == 20 * -(-DAY_S // 1000)
    found = curves.table(["curve 0"])
    assert found["time"][-1] == DAY_S - 1
    shown = found["curves"]["curve 0"]
    assert min(shown["low"]) == few.min()
    assert max(shown["high"]) == few.max()
    held = np.diff([-1.0, *found["time"]])  # moments in each row
    assert np.average(shown["mean"], weights=held) == pytest.approx(few.mean())


def test_first_names_have_their_places() -> None:
    """However many others come before them."""
    curves = Curves(["return"], names=3)
    curves.add(0, 0, {"a": 1.0, "b": 1.0, "c": 1.0, "return": 2.0})
    assert curves.table(["return", "c"])["curves"]["return"]["mean"] == [2.0]
    assert (sorted(curves.names), curves.left_out) == (["a", "b", "return"], 1)
