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


def test_a_setting_with_the_name_of_a_subcommand_is_read_from_a_file(trained, tmp_path):
    """As `keys`: a run that is resumed by its folder must not listen without them."""
    file = tmp_path / "some.toml"
    file.write_text('keys = "farflung-keys"\nsteps = 9\n')
    assert main.command(["--config", str(file)]) == 3
    (loaded,) = trained
    assert (loaded.config.keys, loaded.config.steps) == ("farflung-keys", 9)


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


def test_help_shows_what_matters_first_and_ends_with_examples(monkeypatch, capsys):
    """The eleven most used flags stand before all others, and no flag is a bare type."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main.command(["--help"]) == 0
    text = capsys.readouterr().out
    titles = [line.split()[1] for line in text.splitlines() if line.startswith("╭")]
    assert titles[:3] == ["Commands", "Most", "World"]
    most = text.partition("Most used")[2].partition("╰")[0]
    assert [word for word in most.split() if word.startswith("--")][:11] == [
        *("--env", "--preset", "--actors", "--envs", "--steps", "--until", "--name"),
        *("--resume", "--evaluate-every", "--algorithm", "--config"),
    ]
    assert not {"STR", "INT", "FLOAT", "CHOICE", "STR..."} & {*text.split()}
    *_, last = main.EXAMPLES
    assert text.rstrip().endswith(last)
    assert all(line.startswith("  ") for line in text.partition("Examples:\n")[2].splitlines())


def test_a_shell_completes_flags(tmp_path, monkeypatch, capsys):
    """`learner --install-completion` writes the script that bash reads."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    assert main.command(["--install-completion", "--shell", "bash"]) == 0
    (script,) = (tmp_path / ".local/share/bash-completion/completions").iterdir()
    assert {"--replay-ratio", "--dqn.gamma", "evaluate"} <= set(script.read_text().split())
