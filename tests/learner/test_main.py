"""The `learner` command: training, or one of its subcommands."""

import sys
from pathlib import Path

import pytest

from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.learner import main
from farflung.learner.learner import Learner


@pytest.fixture
def trained(monkeypatch):
    """Return the configurations that training was asked for."""
    asked = []
    monkeypatch.setattr(Learner, "__init__", lambda self, loaded: asked.append(loaded))
    monkeypatch.setattr(Learner, "serve", lambda self: 3)
    return asked


def test_without_a_subcommand_it_trains(trained):
    """The configuration comes with the origin of its values, and the exit code is training's."""
    assert main.command(["--seed", "4"]) == 3
    (loaded,) = trained
    assert loaded.config.seed == 4


def test_an_unknown_flag_is_refused_with_a_suggestion(trained):
    """The nearest one is named, and nothing is trained."""
    with pytest.raises(UsageError, match="--replay-ratio"):
        main.command(["--replay-ration", "4"])
    assert trained == []


def test_the_exit_code_of_an_error_is_its_own(trained, monkeypatch, capsys):
    """One line on standard error, no traceback."""
    monkeypatch.setattr(sys, "argv", ["learner", "--stcak", "4"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 64
    assert capsys.readouterr().err.count("\n") == 1


def test_what_is_no_run_cannot_be_gone_on_with(tmp_path: Path) -> None:
    """The error names the flag, not an unrelated file."""
    with pytest.raises(
        ConfigurationError,
        match=r"--resume .*/nowhere: there is no config.toml in it. Name the folder of a run.",
    ):
        main.command(["--resume", str(tmp_path / "nowhere")])
