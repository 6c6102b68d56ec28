"""Commands that we print can be pasted into the shell that started us."""

import os
import sys
from pathlib import Path

import pytest

from farflung.common.process.invocation import command, pasted


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A virtual environment below the current folder, with a learner and no actor."""
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    for name in ("python", "learner"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setattr(sys, "argv", ["pytest"])
    monkeypatch.setenv("PATH", os.defpath)
    return folder


def test_a_program_that_is_not_on_the_path_has_its_path(environment: Path) -> None:
    """As in the shell of a reader who called `make run`."""
    assert command("learner") == ".venv/bin/learner"
    assert command("actor") == ".venv/bin/python -m farflung actor"


def test_a_program_in_another_folder_has_its_whole_path(
    environment: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Quoted, if the folder's name needs that."""
    spaced = tmp_path / "my tools"
    environment.rename(spaced)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(sys, "executable", str(spaced / "python"))
    assert command("learner") == f"'{spaced}/learner'"


def test_an_active_environment_needs_no_path(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name alone; but not the name of another installation's program."""
    monkeypatch.setenv("PATH", f"{environment}{os.pathsep}{os.defpath}")
    assert command("learner") == "learner"
    other = environment.parent / "other"
    other.mkdir()
    (other / "learner").write_text("#!/bin/sh\n")
    (other / "learner").chmod(0o755)
    monkeypatch.setenv("PATH", f"{other}{os.pathsep}{environment}")
    assert command("learner") == ".venv/bin/learner"


def test_a_script_of_the_user_is_found_by_its_own_path(
    environment: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`pip install --user` puts it beside no Python."""
    monkeypatch.setattr(sys, "argv", [str(environment / "learner")])
    monkeypatch.setattr(sys, "executable", "/usr/bin/nothing")
    monkeypatch.setenv("PATH", str(environment))
    assert command("learner") == "learner"


def test_the_line_that_joins_this_machine_can_be_pasted(environment: Path) -> None:
    """One for another machine names the program there; other text is left alone."""
    here = ".venv/bin/python -m farflung actor 127.0.0.1:5555 --policy red"
    assert pasted("actor 127.0.0.1:5555 --policy red") == here
    assert pasted("actor gpu-box:5555") == "actor gpu-box:5555"
    assert pasted("learner worker 127.0.0.1:5555") == ".venv/bin/learner worker 127.0.0.1:5555"
    assert pasted("learner worker gpu-box:5555") == "learner worker gpu-box:5555"
    assert pasted("rm 127.0.0.1") == "rm 127.0.0.1"
