"""What a process finds around it: packages of our names that are somebody else's."""

import os
import sys

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
    assert program.ended() == 78, program.said
    [line] = program.said.splitlines()
    assert f"{path} hides our package of that name: rename it" in line


def test_a_folder_that_is_no_package_hides_nothing(shell):
    """Without an `__init__.py`, ours is found all the same."""
    (shell.folder / "common").mkdir()
    program = shell.start(sys.executable, "-m", "broker.main", "--help")
    assert program.ended() == 0
    assert "Usage: broker" in program.said
