"""The judgement of benchmarks, by numbers worked by hand."""

import importlib.util
from pathlib import Path

import pytest


def loaded():
    """Return the module of that judgement: the benchmarks are no installed package."""
    path = Path(__file__).parents[2] / "bench/_verdict.py"
    spec = importlib.util.spec_from_file_location("bench_verdict", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


verdict = loaded()
Work = verdict.Work

SEQUENTIAL = [Work(1000, 500, 4.0, 20.0), Work(1000, 500, 4.0, 22.0), Work(1000, 500, 4.0, 21.0)]


def finished(*seconds, steps=1000, updates=500, ratio=4.0):
    """Return an arm of the same work, unless told otherwise."""
    return [Work(steps, updates, ratio, each) for each in seconds]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (100, 105, True),
        (105, 100, True),
        (100, 105.1, False),
        (105.1, 100, False),
        (0, 0, True),
        (0, 1, False),
    ],
)
def test_figures_are_alike_up_to_five_percent_of_the_smaller(one, other, expected):
    """The order of the two does not matter."""
    assert verdict.alike(one, other) is expected


def test_ratio_is_taken_round_by_round():
    """Median and range of 10/20, 12/20 and 9/20; the ratio of the medians would hide a round."""
    found = verdict.ratio([10, 12, 9], [20, 20, 20])
    assert found == {"median": 0.5, "range": [0.45, 0.6], "inconclusive": True}
    with pytest.raises(ValueError):
        verdict.ratio([1, 2], [1])


def test_range_over_a_quarter_of_the_median_is_inconclusive():
    """A range of exactly a quarter still counts."""
    assert verdict.spread([1.0, 1.25, 1.0]) == {"median": 1.0, "range": [1.0, 1.25]}
    assert verdict.spread([1.0, 1.26, 1.0])["inconclusive"] is True


def test_equal_work_has_time_and_speed():
    """Times of 10/20, 11/22 and 10.5/21 are half; experiences per second are double."""
    found = verdict.compared(SEQUENTIAL, finished(10.0, 11.0, 10.5))
    assert found == {
        "epoch_time": {"median": 0.5, "range": [0.5, 0.5]},
        "experiences_per_second": {"median": 2.0, "range": [2.0, 2.0]},
        "advice": verdict.ASYNC,
    }


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"steps": 1051}, "environment steps of 1000 and 1051"),
        ({"updates": 476}, "gradient steps of 500 and 476"),
        ({"ratio": 4.21}, "replay ratio of 4 and 4.21"),
        ({"ratio": 0.4}, "replay ratio of 4 and 0.4"),
    ],
)
def test_unequal_work_is_refused_without_any_speed(other, reason):
    """Arms that did less work were not faster. One such round is enough."""
    arm = [*finished(10.0, 11.0), *finished(10.5, **other)]
    found = verdict.compared(SEQUENTIAL, arm)
    assert found == {"refused": f"the arms did different work: {reason}"}


def test_work_within_five_percent_is_compared_by_its_rate():
    """1,050 steps in half of the time are 2.1 times as many per second."""
    found = verdict.compared(SEQUENTIAL[:1], finished(10.0, steps=1050, updates=480))
    assert found["experiences_per_second"]["median"] == 2.1
    assert found["epoch_time"]["median"] == 0.5


@pytest.mark.parametrize(
    ("speed_ups", "expected"),
    [
        ([1.9, 2.0, 2.1], verdict.ASYNC),
        ([1.06, 1.06, 1.06], verdict.ASYNC),
        ([1.05, 1.05, 1.05], verdict.SEQUENTIAL),
        ([0.9, 0.95, 1.05], verdict.SEQUENTIAL),
        ([0.9, 1.0, 1.2], verdict.UNCLEAR),
        ([0.5, 0.7, 1.0], verdict.SEQUENTIAL),
        ([1.2, 1.6, 2.0], verdict.UNCLEAR),
        ([2.0], verdict.ALONE),
    ],
)
def test_advice_follows_the_rounds(speed_ups, expected):
    """Async must be faster by more than 5 % in rounds that agree; never faster is clear too."""
    assert verdict.advice(speed_ups) == expected


def test_scale_is_a_multiple_of_one_actor_in_the_same_round():
    """100/50 and 104/52 are 2, however the machine's speed moved between the rounds."""
    found = verdict.scaled({1: [50, 52], 2: [100, 104]}, [50, 52])
    assert found == {
        "1": {"median": 1.0, "range": [1.0, 1.0]},
        "2": {"median": 2.0, "range": [2.0, 2.0]},
    }


def test_work_that_was_not_asked_for_is_named():
    """Collection that outran learning has no speed-up, and neither has one that was cut short."""
    assert verdict.off("a replay ratio", 4.0, {1: [4.0, 3.9], 48: [4.1, 4.2]}) == ""
    sentence = verdict.off("a replay ratio", 4.0, {1: [4.0], 48: [3.95, 3.0]})
    assert sentence == "48 actors had a replay ratio of 3, and 4 was asked for"
    sentence = verdict.off("steps of each", 800, {1: [816.0], 2: [752.0]})
    assert sentence == "2 actors had steps of each of 752, and 800 was asked for"
