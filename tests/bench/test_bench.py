"""Every benchmark runs, and says what it measured in one line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.system
@pytest.mark.parametrize(
    "name", ["actor", "data_path", "feed", "relay", "replay", "startup", "update"]
)
def test_a_benchmark_prints_one_json_line(name: str, tmp_path: Path):
    """`python bench/NAME.py --quick` ends by itself, and its only output is a JSON object that bears its name."""
    command = [sys.executable, str(BENCH / f"{name}.py"), "--quick"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["bench"] == name


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.system
def test_side_by_side_compares_a_checkout_with_another(tmp_path: Path):
    """Compared with itself, each figure of a benchmark has a ratio."""
    command = [sys.executable, str(BENCH / "side_by_side.py"), str(BENCH.parent)]
    done = subprocess.run(
        [*command, "--quick", "--rounds", "1", "replay"],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["replay"]["vectors.ours_per_second"]["median"] > 0
