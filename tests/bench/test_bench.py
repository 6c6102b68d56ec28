"""Every benchmark runs, and says what it measured in one line."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest
from support.waiting import run_to_end

BENCH = Path(__file__).parents[2] / "bench"
SHORT = ("incarnations", "replay")
# They start learners, or take more than 3 s of processor time: in `make faults`.
LONG = (
    "acting",
    "actor",
    "env_processes",
    "beside",
    "data_path",
    "durability",
    "epoch",
    "feed",
    "fleet",
    "gradients",
    "lag",
    "real_time",
    "ratios",
    "relay",
    "resume",
    "scale",
    "slow_update",
    "startup",
    "telemetry",
    "trace",
    "update",
)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.system
@pytest.mark.parametrize(
    "name", [*SHORT, *(pytest.param(name, marks=pytest.mark.faults) for name in LONG)]
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
@pytest.mark.faults
def test_side_by_side_compares_a_checkout_with_another(tmp_path: Path):
    """Compared with itself, each figure of a benchmark has a ratio."""
    command = [sys.executable, str(BENCH / "side_by_side.py"), str(BENCH.parent)]
    words = ("--quick", "--rounds", "1", "replay")
    done = run_to_end([*command, *words], 120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["replay"]["vectors.ours_per_second"]["median"] > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.system
@pytest.mark.faults
def test_in_turns_compares_running_checkouts(tmp_path: Path):
    """Compared with itself; each kind of arm has a ratio and the rates of both."""
    command = [sys.executable, str(BENCH / "in_turns.py"), str(BENCH.parent)]
    arms = ("data_path.1_KiB", "raw.64_KiB", "relay.relayed", "actor.1")
    done = run_to_end([*command, *arms, "--rounds", "1"], 120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for arm in arms:
        assert min(found[arm][name] for name in ("median", "here_per_second")) > 0
    refused = run_to_end([*command, "relay"], 120, cwd=tmp_path)
    assert refused.returncode == 2
    assert "no arm is called relay" in refused.stderr


def test_command_of_a_result_names_real_time_priority(monkeypatch: pytest.MonkeyPatch):
    """Its figures are those of a machine without other work; `--publish` is no part of them."""
    spec = importlib.util.spec_from_file_location("bench_measure", BENCH / "_measure.py")
    assert spec is not None
    assert spec.loader is not None
    measure = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(measure)
    monkeypatch.setattr(sys, "argv", ["bench/scale.py", "--rounds", "2", "--publish"])
    for policy, words in ((os.SCHED_OTHER, ""), (os.SCHED_RR, "chrt -r 1 ")):
        monkeypatch.setattr(os, "sched_getscheduler", lambda process, found=policy: found)
        assert measure.command() == f"{words}python bench/scale.py --rounds 2"
