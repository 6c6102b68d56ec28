"""Our programs as processes: how each begins, and how one that outlived its starter is ended."""

import subprocess
import sys

import pytest
from support.runs import a_run
from support.waiting import eventually

from farflung.common.process.lifecycle import Stop
from farflung.learner.local.programs import end_survivor, program
from farflung.learner.storage.run_folder import is_locked

pytestmark = pytest.mark.slow

HOLDER = """\
import signal, sys, threading
from pathlib import Path
from farflung.learner.storage.run_folder import exclusive
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with exclusive(Path(sys.argv[1]), "held"):
    print("holds", flush=True)
    threading.Event().wait(60)
"""


@pytest.fixture
def stop():
    made = Stop()
    yield made
    made.close()


@pytest.fixture
def hold():
    """Return a function that starts a process which holds a run's lock."""
    started = []

    def holds(run, kind):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(run.folder / "LOCK"), kind], stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout.readline() == b"holds\n"
        return process

    yield holds
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize(("kind", "signals"), [("", 1), ("deaf", 2)])
def test_survivor_is_ended_by_the_number_in_its_lock(tmp_path, stop, hold, kind, signals):
    """First with SIGTERM, and then with SIGKILL."""
    run, said = a_run(tmp_path, "one"), []
    process = hold(run, kind)
    end_survivor(run.folder, stop, said.append, patience_s=0.3)
    assert not is_locked(run.folder)
    assert process.wait() == (-15, -9)[signals - 1]
    assert len(said) == 1 + signals


def test_run_without_a_holder_is_left_at_once(tmp_path, stop):
    """There is nothing to say."""
    said = []
    end_survivor(a_run(tmp_path, "one").folder, stop, said.append, patience_s=30.0)
    assert said == []


def test_process_with_the_number_of_a_former_holder_is_not_ended(tmp_path, stop, hold):
    """Numbers are used again. Here the lock is held, and its file names a process of others."""
    run, other = a_run(tmp_path, "one"), a_run(tmp_path, "other")
    hold(run, "")
    bystander = hold(other, "")
    (run.folder / "LOCK").write_text("")  # not a number: no process is signalled
    end_survivor(run.folder, stop, lambda text: None, patience_s=0.1)
    assert bystander.poll() is None
    assert is_locked(run.folder)


def test_survivor_that_leaves_by_itself_gets_no_signal(tmp_path, stop, hold):
    """Its last checkpoint takes a while."""
    run, said = a_run(tmp_path, "one"), []
    process = hold(run, "")

    def say(text):
        said.append(text)
        process.kill()
        eventually(lambda: process.poll() is not None)

    end_survivor(run.folder, stop, say, patience_s=20.0)
    assert len(said) == 1


def test_program_of_ours_ends_with_its_starter():
    """By its standard input; and no folder in which it starts hides our packages."""
    interpreter, *words = program("learner")
    assert interpreter == sys.executable
    assert words == ["-P", "-m", "farflung", "learner", "--until-stdin-closes"]
