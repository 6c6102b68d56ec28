"""The `farflung` package: its umbrella command and the entry points of all commands."""

import re
import signal
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from support.waiting import run_to_end

from farflung import __main__ as commands

ROOT = Path(__file__).parents[1]

SLOW = """
import sys, threading
print("importing", flush=True)
threading.Event().wait(20)
"""


@pytest.fixture
def farflung(monkeypatch, capsys):
    """Runs `farflung` with these arguments; returns the exit code, the output and the role."""

    def run(*words):
        started = []
        monkeypatch.setattr(sys, "argv", ["farflung", *words])
        monkeypatch.setattr(commands, "_run", started.append)
        try:
            commands.main()
        except SystemExit as ending:
            code = ending.code
        else:
            code = 0
        return code, "".join(capsys.readouterr()), started

    return run


@pytest.mark.parametrize("role", commands.ROLES)
def test_umbrella_command_runs_the_named_role_with_the_other_arguments(farflung, role):
    """`farflung learner --help` is `learner --help`."""
    assert farflung(role, "--help") == (0, "", [role])
    assert sys.argv == [role, "--help"]


@pytest.mark.parametrize(("words", "says"), [(("lerner",), "'lerner'"), ((), "which role?")])
def test_umbrella_command_refuses_an_unknown_or_missing_role(farflung, words, says):
    """Exit code 64, with the usage."""
    code, said, started = farflung(*words)
    assert (code, started) == (64, [])
    assert says in said
    assert commands.USAGE in said


def test_umbrella_command_prints_help_and_version(farflung):
    """Both with exit code 0."""
    assert farflung("--help") == (0, f"{commands.USAGE}\n", [])
    assert farflung("--version") == (0, f"{version('farflung')}\n", [])


@pytest.mark.slow
@pytest.mark.parametrize("role", commands.ROLES)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_signal_during_the_imports_ends_a_command_without_a_traceback(
    tmp_path: Path, role, number, code
):
    """`cyclopts`, which every role imports first, stands for all imports that take time."""
    (tmp_path / "cyclopts.py").write_text(SLOW)
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
        f"import farflung.__main__ as m; m.{role}()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "importing\n"
    process.send_signal(number)
    said = "".join(process.communicate(timeout=60))
    assert (process.returncode, said) == (code, "")


def test_changelog_dates_the_version_of_the_build():
    """The first heading is the version in pyproject.toml, with the day of its release."""
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    heading = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert re.fullmatch(rf"{re.escape(built)} \(\d{{4}}-\d{{2}}-\d{{2}}\)", heading)


def test_entry_points_import_only_what_the_handlers_need():
    """Each further module is time in which Ctrl-C prints a traceback."""
    program = (
        "import os, sys; before = set(sys.modules); import farflung.__main__; "
        "print(*sorted(set(sys.modules) - before))"
    )
    found = run_to_end([sys.executable, "-c", program])
    assert set(found.stdout.split()) == {"farflung", "farflung.__main__"}
