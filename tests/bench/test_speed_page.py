"""Measured speeds in the documents: a refusal or a wide range never becomes a bare figure."""

import importlib.util
from pathlib import Path

import pytest

SECONDS = {"sequential": {"seconds": {"median": 20.0}}, "async": {"seconds": {"median": 10.0}}}
WHERE = {"command": "python bench/x.py", "date": "2026-01-01", "cores": 2, "load": 0.5}


@pytest.fixture
def speed():
    """Return the module that describes these results."""
    path = Path(__file__).parents[2] / "docs/write.py"
    spec = importlib.util.spec_from_file_location("write", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.speed


def a_scale(**changes):
    """Return results of one and two actors."""
    start = {"seconds": {"median": 1.5, "range": [1, 2]}, "megabytes": 80, "own_megabytes": 38}
    figures = {
        "burns": False,
        "latency_ms": 20.0,
        "rounds": 3,
        "steps": 800,
        "replay_ratio": 1.0,
        "one_per_second": {"median": 49.5, "range": [49.0, 50.0]},
        "storing": {"1": {"median": 1.0, "range": [1.0, 1.0]}},
        "start": {"1": start},
    }
    return WHERE | figures | changes


def test_row_of_equal_work_has_both_ratios_and_the_advice(speed):
    """Median and range of each."""
    half, double = {"median": 0.5, "range": [0.4, 0.6]}, {"median": 2.0, "range": [1.7, 2.5]}
    case = SECONDS | {"epoch_time": half, "experiences_per_second": double, "advice": "use it"}
    expected = "| waiting | 20.0 | 10.0 | 0.5 (0.4 to 0.6) | 2 (1.7 to 2.5) | use it |"
    assert speed.line("waiting", case) == expected


def test_row_of_unequal_work_has_the_reason_and_no_ratio(speed):
    """Ten seconds against twenty is no speed-up if the work was not the same."""
    case = SECONDS | {"refused": "the arms did different work"}
    row = speed.line("waiting", case)
    assert row == "| waiting | 20.0 | 10.0 | – | – | the arms did different work |"


def test_replay_ratio_that_was_not_held_leaves_training_without_figures(speed):
    """The reason stands in the text."""
    text = speed.scale(a_scale(training_refused="2 actors had a replay ratio of 0.5"))
    assert "| 1 | 1 (1 to 1) | – | 1.5 | 80 (38) |" in text
    assert "no figure, for 2 actors had a replay ratio of 0.5" in " ".join(text.split())


def test_range_that_is_too_wide_is_named(speed):
    """In the cell of its ratio."""
    wide = {"median": 40.0, "range": [20.0, 45.0], "inconclusive": True}
    text = speed.scale(a_scale(training={"1": wide}))
    assert "40 (20 to 45, inconclusive)" in text


def test_delays_of_an_actor_stand_beside_those_of_the_bare_loop(speed):
    """A row for each; steps that ran over because of us are named apart."""
    late = {"p50_ms": 0.1, "p99_ms": 0.275, "worst_ms": 6.3, "steps": 3000, "left_out": 1}
    case = {
        "actor": late | {"over": 3, "dropped": 2},
        "bare": late | {"p99_ms": 0.14, "over": 0},
        "over_because_of_us": 1,
        "versions_per_s": 10.0,
        "weights_mb": 1.0,
    }
    text = speed.real_time(WHERE | {"seconds": 60.0, "50_hz": case})
    assert "| 50 Hz, actor | 0.10 | 0.28 | 6.30 | 3,000 | 3 (1) | 1 | 2 |" in text
    assert "| 50 Hz, bare loop | 0.10 | 0.14 | 6.30 | 3,000 | 0 | 1 | |" in text
    assert "come 10 times a second" in " ".join(text.split())


def test_batches_of_a_replay_stand_beside_another_library(speed):
    """A figure that was not measured there is a dash."""
    uniform = {"ours_per_second": 9000, "ratio": 0.5}
    figures = {"vectors_few": 15000, "vectors": 10200, "images": 1600, "cpprb_vectors": 3000}
    found = WHERE | {
        "batch": 256,
        "vectors": uniform,
        "images": uniform,
        "prioritised": {f"{name}_per_second": each for name, each in figures.items()}
        | {"cost_of_many": 1.5, "cost_of_many_range": [1.4, 1.6]},
    }
    text = speed.replay(found)
    assert "| vectors, 10^4 | 15,000 | – |\n| vectors, 10^6 | 10,200 | 3,000 |" in text
    assert "takes 1.5 (1.4 to 1.6) times as long" in " ".join(text.split())
