"""The long fault tests in short: kills lose and double nothing; planted faults are noticed."""

import sys
from pathlib import Path

import pytest
from support.waiting import run_to_end

sys.path.append(str(Path(__file__).parents[1]))

from chaos.plan import KILLS, schedule

pytestmark = [pytest.mark.faults, pytest.mark.slow]

HERE = Path(__file__).parent


def run(script, *words):
    """Run a script of this folder; return its exit code and its output."""
    done = run_to_end([sys.executable, HERE / script, *words], within_s=200)
    return done.returncode, done.stdout + done.stderr


def test_schedule_repeats_by_seed_and_kills_every_role():
    """The same seed means the same faults, another seed others; every role is killed."""
    faults = schedule(1, 200, 5.0)
    assert faults == schedule(1, 200, 5.0) != schedule(2, 200, 5.0)
    kills = [fault.role for fault in faults if fault.signal.name == "SIGKILL"]
    assert len(kills) == 200
    assert set(kills) == set(KILLS)
    assert len(faults) > 220


def test_dozen_kills_lose_nothing():
    """Learner, broker and actors are killed and stopped in any order; then the audit holds."""
    code, said = run("run.py", "--kills", 12, "--trials", 0, "--mean", 0.7, "--actors", 1)
    assert code == 0, said
    assert '"lost": 0' in said


def test_crash_at_any_call_to_the_disk_loses_nothing():
    """The sweep crashes at a share of its points."""
    code, said = run("sweep.py", "--quick", "--share", 0.02, "--kills", 5)
    assert code == 0, said
    assert '"broken": []' in said


def test_sweep_notices_a_planted_fault():
    """The planted recovery forgets the numbers of each actor."""
    code, said = run("sweep.py", "--planted", "forget the inbox")
    assert code == 1, said
    assert "duplicated" in said or "kept" in said, said
