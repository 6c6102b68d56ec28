"""Ratios of ours to its limits: a fall is refused, a busy moment is not."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest
from support.waiting import run_to_end

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "bench/ratios.py"
COMMITTED = {"update": 0.8, "steps": 0.5}


@pytest.fixture
def ratios(monkeypatch: pytest.MonkeyPatch):
    """Return the module."""
    monkeypatch.setattr(sys, "path", [str(SCRIPT.parent), *sys.path])
    spec = importlib.util.spec_from_file_location("bench_ratios", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measuring(**rounds):
    """Return a measurement with these ratios, one after the other, and the names it was asked."""
    left, asked = {name: list(each) for name, each in rounds.items()}, []

    def measure(names):
        asked.append(list(names))
        return {name: left[name].pop(0) for name in names}

    return measure, asked


def test_ratio_that_falls_each_time_is_refused(ratios):
    """Fifteen percent below the committed one is allowed, and a little more is not."""
    measure, asked = measuring(update=[0.67, 0.66, 0.65], steps=[0.43])
    best = ratios.best_of(measure, COMMITTED)
    assert best == {"update": 0.67, "steps": 0.43}
    assert ratios.fallen(best, COMMITTED) == ["update"]
    assert asked == [["update", "steps"], ["update"], ["update"]]


def test_ratio_of_a_busy_moment_is_measured_again(ratios):
    """The best of three attempts counts, and the third is left out where the second will do."""
    measure, asked = measuring(update=[0.3, 0.79], steps=[0.5])
    best = ratios.best_of(measure, COMMITTED)
    assert ratios.fallen(best, COMMITTED) == []
    assert asked == [["update", "steps"], ["update"]]


def test_every_ratio_is_committed(ratios):
    """A new one without a figure would never be checked."""
    committed = json.loads((ROOT / "docs/results/ratios.json").read_text())["ratios"]
    assert list(committed) == list(ratios.RATIOS)


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize(("committed", "code"), [(100.0, 1), (0.001, 0)])
def test_check_measures_and_compares(committed: float, code: int, tmp_path: Path):
    """The command ends with exit code 1 where what it measured is far below, and names it."""
    name, path = "batches_of_vectors", tmp_path / "ratios.json"
    path.write_text(json.dumps({"ratios": {name: committed}}))
    command = [sys.executable, str(SCRIPT), "--check", "--only", name, "--against", str(path)]
    done = run_to_end(command, 60, cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == code, done.stderr
    assert json.loads(done.stdout)["ratios"][name] > 0
    assert (f"{name}: " in done.stderr) == bool(code)
