"""A process's surroundings: other packages of our names, and too few file descriptors."""

import os
import sys
from pathlib import Path

import psutil
import pytest

from farflung.common.process.descriptors import WANTED

pytestmark = [pytest.mark.system, pytest.mark.slow]
BEGIN_AS_A_USERS = True  # learners, and not as forks


@pytest.fixture
def theirs(shell):
    """Makes a user's package in the current folder, with a module that ours has as well."""

    def make(name):
        package = shell.folder / name
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "config.py").write_text("SIZE = 3\n")
        return package / "__init__.py"

    return make


@pytest.mark.parametrize("role", ["actor", "broker", "learner"])
@pytest.mark.parametrize("way", ["current folder", "PYTHONPATH"])
def test_users_own_packages_never_collide_with_ours(shell, theirs, role, way):
    """Folders called common, actor, learner and broker are the user's own business."""
    for name in ("common", "actor", "learner", "broker"):
        theirs(name)
    if way == "PYTHONPATH":
        inherited = os.environ.get("PYTHONPATH", "")
        path = os.pathsep.join(filter(None, (str(shell.folder), inherited)))
        program = shell.start(role, "--help", PYTHONPATH=path)
    else:
        program = shell.start(sys.executable, "-m", "farflung", role, "--help")
    assert program.ended() == 0
    assert f"Usage: {role}" in program.said


def test_learner_imports_a_users_own_common(shell, theirs):
    """`--import envs`, where `envs` imports `common.config`, finds the user's `common`."""
    theirs("common")
    (shell.folder / "envs.py").write_text("from common.config import SIZE\n\nassert SIZE == 3\n")
    short = ("--mode", "sequential", "--steps", 64, "--warmup", 32)
    program = shell.learner("--import", "envs", *short)
    assert program.ended() == 0, program.said


@pytest.mark.parametrize("words", [("farflung",), (sys.executable, "-m", "farflung")])
def test_umbrella_command_runs_each_role(shell, words):
    """`farflung ROLE` and `python -m farflung ROLE` are the role's own command."""
    for role in ("actor", "broker", "learner"):
        program = shell.start(*words, role, "--help")
        assert program.ended() == 0
        assert f"Usage: {role}" in program.said
    assert shell.start(*words, "brokr").ended() == 64
    assert shell.start(*words, "--help").ended() == 0


def limited(limit, role, *words):
    """The command line of a role under such a limit of its file descriptors."""
    return (
        "/bin/sh",
        "-c",
        f'ulimit {limit} && exec "$@"',
        "sh",
        Path(sys.executable).with_name(role),
        *words,
    )


@pytest.mark.parametrize(
    ("role", "words", "needed"),
    [
        ("broker", ("127.0.0.1:9",), 64 + 2 * (1 + 64)),
        ("learner", ("--actors", 3, "--evaluate-every", 0), 64 + 3 + 2 * (3 + 64)),
    ],
)
def test_too_few_file_descriptors_are_refused_with_the_number(shell, role, words, needed):
    """One less than the number is refused at the start, in one sentence after the first line."""
    program = shell.start(*limited(f"-n {needed - 1}", role, *words, "--port", 0))
    program.names(f"needs {needed} file descriptors, and this system allows {needed - 1}", 78)
    first, sentence = program.said.splitlines()
    assert "INFO starting" in first
    assert sentence.startswith(f"{role}: ")


def test_low_soft_limit_of_descriptors_is_raised(shell):
    """Many systems start with 256 or 1,024 and allow far more."""
    program = shell.start(*limited("-Sn 100", "broker", "127.0.0.1:9", "--port", 0))
    program.says("listening: ")
    soft, hard = psutil.Process(program.pid).rlimit(psutil.RLIMIT_NOFILE)
    assert soft == min(hard if hard > 0 else WANTED, WANTED)
