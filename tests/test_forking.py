"""Learners and actors by a fork are processes as a shell starts them (tests/support/forking.py)."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.forking import forks
from support.programs import BIN
from support.waiting import eventually

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has what it takes"),
]


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a learner with flags; its output is in `out`."""
    begun = []

    def starts(*flags, **variables):
        (tmp_path / "out").write_bytes(b"")
        words = [str(BIN / "learner"), *flags, str(tmp_path / "out")]
        begun.append(forks("learner").start(words, tmp_path, os.environ | variables))
        return begun[-1]

    yield starts
    for learner in begun:
        learner.kill()
        learner.wait()


def code_of(learner):
    """Return the exit code of a learner that ends."""
    eventually(lambda: learner.poll() is not None, "an end", 60.0)
    return learner.returncode


def test_copy_has_its_own_words_variables_and_exit_code(start, tmp_path):
    """A flag that does not exist, a variable that is wrong, and neither."""
    assert code_of(start("--stepz", "1")) == 64
    assert "Did you mean --steps?" in (tmp_path / "out").read_text()
    assert code_of(start(FARFLUNG_LEARNER_STEPS="many")) == 64
    assert "many" in (tmp_path / "out").read_text()
    flags = ("--mode", "sequential", "--warmup", "100", "--until", "updates > 2", "--ui", "lines")
    assert code_of(start(*flags)) == 0, (tmp_path / "out").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"out", "runs"}


def test_copy_takes_signals_and_its_end_is_seen(start, tmp_path):
    """One in a session of its own, killed; nothing else is, and its number stays until then."""
    learner = start("--port", "0", "--ui", "lines")
    eventually(lambda: "listening" in (tmp_path / "out").read_text(), "a learner", 60.0)
    assert os.getsid(learner.pid) == learner.pid
    assert learner.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        learner.wait(0.01)
    os.kill(learner.pid, signal.SIGKILL)
    ended = eventually(lambda: psutil.Process(learner.pid).status() == psutil.STATUS_ZOMBIE)
    assert ended
    assert code_of(learner) == -signal.SIGKILL
    eventually(lambda: not psutil.pid_exists(learner.pid))
    learner.terminate()  # as of any process that has ended


def test_copy_of_an_actor_is_without_torch(tmp_path):
    """It waits for a learner, and has neither torch nor the memory that torch takes."""
    words = [str(BIN / "actor"), "127.0.0.1:9", str(tmp_path / "out")]
    actor = forks("actor").start(words, tmp_path, os.environ)
    said = tmp_path / "out"
    try:
        eventually(lambda: said.exists() and "waiting for a learner" in said.read_text(), "it", 60)
        assert "libtorch" not in Path(f"/proc/{actor.pid}/maps").read_text()
        assert psutil.Process(actor.pid).memory_info().rss < 250e6
    finally:
        actor.terminate()
    assert code_of(actor) in (0, 143)
