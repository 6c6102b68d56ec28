"""The long fault tests in short: kills lose and double nothing; planted faults are noticed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.programs import lives
from support.waiting import eventually, run_to_end

sys.path.append(str(Path(__file__).parents[1]))

from chaos.plan import KILLS, schedule

pytestmark = [pytest.mark.faults, pytest.mark.slow]

HERE = Path(__file__).parent


def run(script, *words, within_s=200):
    """Run a script of this folder; return its exit code and its output."""
    done = run_to_end([sys.executable, HERE / script, *words], within_s=within_s)
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


def test_kills_and_stops_of_workers_keep_the_books():
    """Of three workers and their learner; a fault comes at any moment, then learning goes on."""
    code, said = run("workers.py", "--kills", 4, "--mean", 0.5)
    assert code == 0, said
    assert '"wrong": []' in said


@pytest.mark.timeout(900)
def test_kills_of_runs_in_rounds_lose_nothing_and_keep_the_bits():
    """Of all roles; then of learner and broker alone, with the bits of one process."""
    code, said = run("rounds.py", "--kills", 4, "--mean", 1, within_s=500)
    assert code == 0, said
    assert said.count('"lost": 0') == 2
    assert '"same_bits": true' in said


@pytest.mark.timeout(900)
def test_kills_among_several_policies_cost_no_row_that_is_not_counted():
    """Each journal has own steps of its policy's agents only, and each of them once."""
    code, said = run("policies.py", "--quick", "--kills", 3, "--mean", 2, within_s=500)
    assert code == 0, said
    assert "nothing is wrong" in said


@pytest.mark.timeout(900)
def test_learner_that_is_killed_while_it_archives_has_its_pool_back():
    """The archive is what its rule keeps, with the same bytes, and each game is counted once."""
    code, said = run("archive.py", "--kills", 2, within_s=500)
    assert code == 0, said
    assert '"broken": []' in said


def at_work(process, number):
    """Return True once a script has started so many processes, and they run."""
    return sum(map(lives, psutil.Process(process.pid).children(recursive=True))) >= number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("script", "words", "started"),
    [
        ("run.py", ("--trials", 0), 6),  # a learner, a broker, four actors
        ("relay.py", (), 6),
        ("rounds.py", (), 6),
        ("workers.py", (), 4),  # a learner and three workers
        ("policies.py", (), 6),  # three learners, a broker, two actors
        ("soak.py", ("--minutes", 20), 6),
        ("solve.py", (), 3),  # a learner with two actors; its evaluator comes later
        ("sweep.py", ("--quick",), 1),
    ],
)
def test_script_that_is_ended_takes_its_processes_along(script, words, started, number, tmp_path):
    """By SIGTERM and by Ctrl-C, in the middle; its temporary folder goes as well."""
    process = subprocess.Popen(
        [sys.executable, HERE / script, *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    try:
        eventually(lambda: at_work(process, started), "its processes", 60)
        family = psutil.Process(process.pid).children(recursive=True)
    finally:
        process.send_signal(number)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 128 + number, said
    assert "Traceback" not in said
    assert [child for child in family if lives(child)] == []
    assert list(tmp_path.glob("tmp*")) == []  # torch leaves files of its own


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
