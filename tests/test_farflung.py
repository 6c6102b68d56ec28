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

import farflung as farflung_package
from farflung import __main__ as commands
from farflung.learner.main import COMMANDS

ROOT = Path(__file__).parents[1]

SLOW = """
import sys, threading
print("importing", flush=True)
threading.Event().wait(20)
"""


@pytest.fixture
def farflung(monkeypatch, capsys):
    """Runs `farflung` with these words; returns exit code, output, and what it would run."""

    def run(*words):
        started = []
        monkeypatch.setattr(sys, "argv", ["farflung", *words])
        monkeypatch.setattr(commands, "_ends_on_a_signal", lambda: None)
        monkeypatch.setattr(commands, "_run", lambda role, words: started.append((role, *words)))
        try:
            commands.main()
        except SystemExit as ending:
            code = ending.code
        else:
            code = 0
        return code, "".join(capsys.readouterr()), started

    return run


@pytest.mark.parametrize(
    ("word", "runs"),
    [
        *((role, (role,)) for role in commands.ROLES),
        ("train", ("learner",)),
        *((command.name, ("learner", command.name)) for command in COMMANDS),
    ],
)
def test_umbrella_command_runs_roles_and_the_commands_of_a_learner(farflung, word, runs):
    """`farflung train --help` is `learner --help`, `farflung status X` is `learner status X`."""
    assert farflung(word, "--help") == (0, "", [(*runs, "--help")])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("evalute",), "unknown command 'evalute'. Did you mean evaluate?"),
        (("tarin",), "unknown command 'tarin'. Did you mean train?"),
        ((), "a command is missing"),
    ],
)
def test_umbrella_command_refuses_an_unknown_or_missing_command(farflung, words, says):
    """Exit code 64, one sentence that leads to the map."""
    code, said, started = farflung(*words)
    assert (code, started) == (64, [])
    assert says in said
    assert said.endswith("`farflung --help` lists all of them\n")


def test_help_of_the_umbrella_command_is_a_map(farflung):
    """Every command in one line that fits a terminal."""
    code, said, started = farflung("--help")
    assert (code, started) == (0, [])
    first = [line.split()[0] for line in said.splitlines() if line.startswith("  ")]
    assert first == ["train", "actor", "broker", *(command.name for command in COMMANDS)]
    assert max(map(len, said.splitlines())) <= 80 + 8
    assert farflung("--version") == (0, f"{version('farflung')}\n", [])


@pytest.mark.slow
@pytest.mark.parametrize("words", [("--help",), ("train", "--help"), ("evaluate", "--help")])
def test_help_of_the_umbrella_command_imports_nothing_heavy(words):
    """As that of `learner`."""
    program = (
        "import sys; sys.argv[0] = 'farflung'\nfrom farflung.__main__ import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(*{'torch', 'numpy', 'gymnasium', 'zmq'} & set(sys.modules), file=sys.stderr)"
    )
    found = run_to_end([sys.executable, "-c", program, *words])
    assert (found.returncode, found.stderr) == (0, "\n")
    assert "Usage:" in found.stdout


def test_import_of_the_package_loads_nothing_heavy():
    """Neither does the base class of callbacks."""
    program = (
        "import sys, farflung\nclass Mine(farflung.Callback): ...\n"
        "assert set(farflung.__all__) <= set(dir(farflung))\n"
        "print(*{'torch', 'numpy', 'gymnasium', 'zmq', 'cyclopts'} & set(sys.modules))"
    )
    found = run_to_end([sys.executable, "-c", program])
    assert (found.returncode, found.stdout, found.stderr) == (0, "\n", "")


@pytest.mark.parametrize("name", farflung_package.__all__)
def test_public_names_are_there_and_documented(name):
    """Also those that are imported when they are used."""
    assert getattr(farflung_package, name).__doc__


def test_unknown_name_of_the_package_is_an_attribute_error():
    """As of any module."""
    with pytest.raises(AttributeError, match="module 'farflung' has no attribute 'trian'"):
        farflung_package.trian  # noqa: B018


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
    """The newest released one is the version in pyproject.toml, with the day of its release."""
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    newest = headings[headings[0] == "Unreleased"]
    assert re.fullmatch(rf"{re.escape(built)} \(\d{{4}}-\d{{2}}-\d{{2}}\)", newest)


def test_entry_points_import_only_what_the_handlers_need():
    """Each further module is time in which Ctrl-C prints a traceback."""
    program = (
        "import os, sys; before = set(sys.modules); import farflung.__main__; "
        "print(*sorted(set(sys.modules) - before))"
    )
    found = run_to_end([sys.executable, "-c", program])
    assert set(found.stdout.split()) == {"farflung", "farflung.__main__"}
