"""`make env`: the Python that it takes, refuses, and replaces. The Pythons here are stand-ins."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from support.programs import lives
from support.waiting import eventually

ROOT = Path(__file__).parents[1]
TOOLS = ("bash", "head", "rm", "tail", "tr", "touch", "sleep", "mkdir", "cp")
PYTHON = """#!/usr/bin/env bash
case "$1" in
  -c) {answer} ;;
  --version) echo "Python {version}" ;;
  -m) case "$2" in
    venv) mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
    pip) echo "Collecting torch"; {wait} exit {pip} ;;
  esac ;;
esac
"""


class Machine:
    """A machine with these Pythons and no others."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._path = folder, folder / "path"
        self._path.mkdir()
        for tool in TOOLS:
            (self._path / tool).symlink_to(str(shutil.which(tool)))
        (folder / "deploy").mkdir()
        shutil.copy(ROOT / "deploy" / "environment.sh", folder / "deploy")
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, folder)

    def has(
        self,
        name: str,
        version: str,
        pip: int = 0,
        where: Path | None = None,
        wait: str = "",
    ) -> None:
        """Install a Python."""
        major, minor, _ = map(int, version.split("."))
        new = (major, minor) >= (3, 11)
        answer = f"echo {major}.{minor} /opt/{version}" if new else "true"
        program = (where or self._path) / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(PYTHON.format(answer=answer, version=version, pip=pip, wait=wait))
        program.chmod(0o755)

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start `make env`, with SIGINT as on a terminal: tests in the background ignore it."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return subprocess.Popen(
                [str(shutil.which("make")), "env", *words],
                cwd=self.folder,
                env={"PATH": str(self._path), "SHELL": "/bin/sh"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        finally:
            signal.signal(signal.SIGINT, before)

    def make(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Return `make env`."""
        process = self.start(*words)
        out, errors = process.communicate()
        return subprocess.CompletedProcess(words, process.returncode, out, errors)

    @property
    def version(self) -> str:
        """The version of the environment's Python."""
        words = [str(self.folder / ".venv/bin/python"), "--version"]
        return subprocess.run(
            words, capture_output=True, text=True, check=True, env={"PATH": str(self._path)}
        ).stdout.strip()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_an_old_python_is_refused_in_a_sentence_before_anything_is_made(machine: Machine) -> None:
    """With both ways out of it."""
    machine.has("python3", "3.10.13")
    ended = machine.make()
    assert ended.returncode
    sentence, *rest = ended.stderr.splitlines()
    assert sentence == (
        "Farflung needs Python 3.11 or newer, and python3 is Python 3.10.13: install a newer one, "
        "or name it: make env PYTHON=/path/to/python3.11"
    )
    assert len(rest) <= 1  # make's own word about the failure
    assert not (machine.folder / ".venv").exists()


def test_a_newer_python_on_the_path_is_found(machine: Machine) -> None:
    """Though `python3` is an old one."""
    machine.has("python3", "3.10.13")
    machine.has("python3.12", "3.12.1")
    ended = machine.make()
    assert ended.returncode == 0, ended.stderr
    assert machine.version == "Python 3.12.1"
    assert "ready: type  . .venv/bin/activate" in ended.stdout
    assert (machine.folder / ".venv/.ready").exists()


@pytest.mark.parametrize(("found", "words"), [("3.10.13", ()), ("3.12.1", ("PYTHON=python3",))])
def test_an_environment_of_another_python_is_replaced(
    machine: Machine, found: str, words: tuple[str, ...]
) -> None:
    """One that is too old always; one that will do if another is asked for."""
    machine.has("python3", "3.11.7")
    machine.has("python", found, where=machine.folder / ".venv/bin")
    assert "made anew" in machine.make(*words).stdout
    assert machine.version == "Python 3.11.7"


def test_an_environment_that_will_do_stays(machine: Machine) -> None:
    """`make run` after `make env PYTHON=python3.12` installs nothing again."""
    machine.has("python3", "3.11.7")
    machine.has("python3.12", "3.12.1")
    machine.make("PYTHON=python3.12")
    again = machine.make()
    assert (again.returncode, again.stdout) == (0, "")
    assert machine.version == "Python 3.12.1"


def test_an_installation_that_fails_shows_why(machine: Machine) -> None:
    """The end of pip's output; the next `make env` tries again."""
    machine.has("python3", "3.11.7", pip=3)
    ended = machine.make()
    assert ended.returncode
    assert "Collecting torch" in ended.stderr
    assert not (machine.folder / ".venv/.ready").exists()


@pytest.mark.slow
def test_ctrl_c_ends_the_installation_too(machine: Machine) -> None:
    """It would go on in the background, and the next `make env` would meet it."""
    machine.has("python3", "3.11.7", wait="echo $$ > pip.pid; exec sleep 100;")
    process = machine.start()
    number = machine.folder / "pip.pid"
    eventually(lambda: number.exists() and number.read_text().strip())
    pip = psutil.Process(int(number.read_text()))
    os.killpg(process.pid, signal.SIGINT)
    process.communicate()
    assert process.returncode
    eventually(lambda: not lives(pip))
    assert not (machine.folder / ".venv/.ready").exists()
