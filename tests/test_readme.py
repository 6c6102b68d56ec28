"""The README's commands, line by line, in a shell that knows nothing of this project."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OTHERS = ("make", "git", "docker", "pip", "python")  # a reader's own programs
# Before each command: run those that change this shell, and look all others up without running
# them.
LOOK = """
shopt -s extdebug
look() {
  case "$BASH_COMMAND ${BASH_SOURCE[1]-}" in '. '*|*/activate) return 0 ;; esac
  type "${BASH_COMMAND%% *}" >/dev/null 2>&1 || echo "not found: $BASH_COMMAND"
  return 1
}
trap look DEBUG
"""


def not_found(commands: str, folder: Path) -> list[str]:
    """Return the commands that a clean shell in a fresh clone does not find."""
    programs = folder / "programs"
    programs.mkdir()
    for name in OTHERS:
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    (folder / ".venv").symlink_to(sys.prefix)
    path = f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin"
    words = ["bash", "--noprofile", "--norc", "-c", LOOK + commands]
    ended = subprocess.run(
        words, cwd=folder, env={"PATH": path}, capture_output=True, text=True, check=False
    )
    assert not ended.stderr, ended.stderr
    return ended.stdout.splitlines()


def test_a_clean_shell_finds_every_command_of_the_readme(tmp_path: Path) -> None:
    """In the order of the page: the environment is activated before its programs are named."""
    if not (Path(sys.prefix) / "bin/activate").exists():
        pytest.skip("this Python is not in a virtual environment")
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) > 3
    assert not_found("".join(blocks), tmp_path) == []


def test_a_command_that_is_missing_is_noticed(tmp_path: Path) -> None:
    """The test above can fail: without the line that activates, `learner` is not found."""
    assert not_found("make run  # comment\nlearner status\n", tmp_path) == [
        "not found: learner status"
    ]
