"""What a process finds around it: packages of our names that are somebody else's, and too few file descriptors."""

import os
import sys
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
def theirs(shell):
    """Makes a package of somebody else's in the current folder; it may well have a module that we have, too."""

    def make(name):
        package = shell.folder / name
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "config.py").write_text("SIZE = 3\n")
        return package / "__init__.py"

    return make


@pytest.mark.parametrize(("role", "hidden"), [("actor", "common"), ("broker", "common"), ("learner", "common"), ("learner", "actor")])
@pytest.mark.parametrize("way", ["current folder", "PYTHONPATH"])
def test_a_package_that_hides_ours_is_named(shell, theirs, role, hidden, way):
    """Where it lies, and what to do: one sentence, exit code 78."""
    path = theirs(hidden)
    if way == "PYTHONPATH":
        inherited = os.environ.get("PYTHONPATH", "")
        program = shell.start(role, "--help", PYTHONPATH=os.pathsep.join(filter(None, (str(shell.folder), inherited))))
    else:
        program = shell.start(sys.executable, "-m", f"{role}.main", "--help")
    program.names(f"{path} hides our package of that name: rename it", 78)
    assert len(program.said.splitlines()) == 1


def test_a_folder_that_is_no_package_hides_nothing(shell):
    """Without an `__init__.py`, ours is found all the same."""
    (shell.folder / "common").mkdir()
    program = shell.start(sys.executable, "-m", "broker.main", "--help")
    assert program.ended() == 0
    assert "Usage: broker" in program.said


def limited(limit, role, *words):
    """The command line of a role under such a limit of its file descriptors."""
    return "/bin/sh", "-c", f'ulimit {limit} && exec "$@"', "sh", Path(sys.executable).with_name(role), *words


@pytest.mark.parametrize(
    ("role", "words", "needed"), [("broker", ("127.0.0.1:9",), 64 + 2 * (1 + 64)), ("learner", ("--actors", 3), 64 + 3 + 2 * (3 + 64))]
)
def test_too_few_file_descriptors_are_refused_with_the_number(shell, role, words, needed):
    """One less than the number is refused at the start, in one sentence."""
    program = shell.start(*limited(f"-n {needed - 1}", role, *words, "--port", 0))
    program.names(f"needs {needed} file descriptors, and this system allows {needed - 1}", 78)
    assert len(program.said.splitlines()) == 1


def test_a_low_soft_limit_is_raised(shell):
    """Many systems give 256 or 1,024 and allow far more."""
    program = shell.start(*limited("-Sn 100", "broker", "127.0.0.1:9", "--port", 0))
    program.says("listening: ")
    soft, hard = psutil.Process(program.pid).rlimit(psutil.RLIMIT_NOFILE)
    assert soft == min(hard if hard > 0 else 8192, 8192)
