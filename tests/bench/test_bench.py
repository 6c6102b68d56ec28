"""Every benchmark runs, and says what it measured in one line."""

import json
import os
import sys
from pathlib import Path

import pytest
from support.waiting import run_to_end

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.system
@pytest.mark.parametrize(
    "name",
    [
        "actor",
        "data_path",
        "epoch",
        "feed",
        "fleet",
        "incarnations",
        "real_time",
        "relay",
        "replay",
        "scale",
        "slow_update",
        "startup",
        "update",
    ],
)
def test_a_benchmark_prints_one_json_line(name: str, tmp_path: Path):
    """`python bench/NAME.py --quick` ends by itself, and its only output is a JSON object that
    bears its name.
    """
    command = [sys.executable, str(BENCH / f"{name}.py"), "--quick"]
    done = run_to_end(command, 120, cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["bench"] == name


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.system
def test_side_by_side_compares_a_checkout_with_another(tmp_path: Path):
    """Compared with itself, each figure of a benchmark has a ratio."""
    command = [sys.executable, str(BENCH / "side_by_side.py"), str(BENCH.parent)]
    words = ("--quick", "--rounds", "1", "replay")
    done = run_to_end([*command, *words], 120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["replay"]["vectors.ours_per_second"]["median"] > 0
