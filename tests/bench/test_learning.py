"""Runs of presets: what is read from a run's metrics, and how the documents show it."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def module(name: str, path: str):
    """Return a script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch):
    """The benchmark."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return module("learning_bench", "bench/learning.py")


@pytest.fixture
def page():
    """The part of the documents."""
    return module("write", "docs/write.py").learning


def a_run(seed: int, means: list[float], *, solved: bool = True) -> dict:
    """Return a run with an evaluation each 100 steps and second."""
    found = [
        {"steps": 100 * at, "seconds": float(at), "mean": mean} for at, mean in enumerate(means, 1)
    ]
    steps = 100 * len(means)
    return {
        "seed": seed,
        "solved": solved,
        "steps": steps,
        "seconds": steps / 100,
        "evaluations": found,
    }


def test_evaluations_are_those_of_the_metrics(bench) -> None:
    """Lines without one are left out."""
    lines = [
        {"time/total_timesteps": 100.0, "time/time_elapsed": 1.26},
        {"time/total_timesteps": 200.0, "time/time_elapsed": 2.26, "eval/mean_reward": -7.125},
    ]
    found = list(bench.evaluations([json.dumps(line) for line in lines]))
    assert found == [{"steps": 200, "seconds": 2.3, "mean": -7.12}]


def test_seeds_of_one_command_are_together_and_a_new_run_replaces_its_seed(bench, tmp_path) -> None:
    """Those of another command are not kept beside them."""
    path = tmp_path / "learning" / "one.json"
    for words, run in [
        ([], a_run(1, [1.0])),
        ([], a_run(0, [2.0])),
        ([], a_run(1, [3.0])),
    ]:
        bench.publish(path, bench.result("one", words, [run]))
    runs = json.loads(path.read_text())["runs"]
    assert [(run["seed"], run["evaluations"][0]["mean"]) for run in runs] == [(0, 2.0), (1, 3.0)]
    bench.publish(path, bench.result("one", ["--steps", "9"], [a_run(2, [4.0])]))
    found = json.loads(path.read_text())
    assert [run["seed"] for run in found["runs"]] == [2]
    assert found["command"] == "python bench/learning.py one -- --steps 9"


def test_a_row_has_median_and_worst(page) -> None:
    """The worst of steps is the most, of evaluations the least; no aim has no share."""
    runs = [a_run(0, [1.0, 30.0, 20.0]), a_run(1, [25.0]), a_run(2, [5.0, 10.0], solved=False)]
    said = "| cartpole | 0, 1, 2 | 2 of 3 | 200, 300 | 2, 3 | 25, 10 | 20, 10 |"
    assert page.row("cartpole", runs) == said
    assert "| 0 | – | 300 | 3 | 30 | 20 |" in page.row("minatar-breakout-dqn", runs[:1])


def test_a_panel_spans_its_points(page) -> None:
    """The least mean is at the bottom, the greatest at the top, the last step at the right."""
    panel = page.panel("one", [a_run(0, [-5.0, 5.0])])
    left, right = page.LEFT, page.WIDTH - page.RIGHT
    bottom = page.HEIGHT - page.BOTTOM
    middle = (left + right) / 2
    assert f'points="{middle:.1f},{bottom:.1f} {right:.1f},{page.TOP:.1f}"' in panel
    assert ">200 steps<" in panel


def test_another_library_is_shown_beside_the_same_preset(page) -> None:
    """Last evaluations, each with its seeds; what only one of the two has is left out."""
    ours = {"one": {"runs": [a_run(0, [1.0, 2.0]), a_run(1, [4.0, 3.0])]}}
    theirs = {
        name: {"package": "other 1.0", "runs": [a_run(0, [1.0, 2.5])]} for name in ("one", "two")
    }
    lines = page.reference(ours, theirs)
    assert lines[-2] == "| one | 200 | 2.5, 2 (2 seeds) | 2.5 (1 seeds) |"
    assert "other 1.0" in lines[0]
    assert page.reference(ours, {}) == []
