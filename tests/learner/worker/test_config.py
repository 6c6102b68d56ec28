"""The settings of a worker: flags, variables and a section of its own, and no options of actors."""

import pytest

from farflung.common.process import config
from farflung.common.process.errors import UsageError
from farflung.learner import main
from farflung.learner.worker.config import WorkerConfig

OF_ACTORS = ("evaluate", "rate", "without-learner", "acknowledged")


@pytest.fixture
def asked(monkeypatch):
    """Return a function that runs `learner worker` with words, up to the worker itself."""
    found = []
    monkeypatch.setattr("farflung.learner.worker.main.work", lambda asked: found.append(asked) or 0)

    def command(*words):
        assert main.command(["worker", *words]) == 0
        return found.pop() if found else None

    return command


def test_flags_come_before_variables_before_the_file(asked, tmp_path, monkeypatch):
    """As for an actor. The file's section is its own, and so are the variables."""
    file = tmp_path / "run.toml"
    file.write_text(
        '[learner]\nenv = "CartPole-v1"\n[actor]\nenvs = 9\n'
        '[worker]\nenvs = 2\nthreads = 2\npolicy = "red"\n'
    )
    monkeypatch.setenv("FARFLUNG_WORKER_CONFIG", str(file))
    monkeypatch.setenv("FARFLUNG_WORKER_ENVS", "3")
    monkeypatch.setenv("FARFLUNG_WORKER_THREADS", "3")
    monkeypatch.setenv("FARFLUNG_ACTOR_ENVS", "8")
    monkeypatch.setenv("FARFLUNG_LEARNER_PORT", "7000")
    assert asked("box:6000", "--envs", "4") == WorkerConfig(
        ("box:6000",), environments=4, threads=3, policy="red"
    )


def test_file_of_a_worker_serves_the_other_roles_too(tmp_path):
    """Each reads its section and no other."""
    file = tmp_path / "run.toml"
    file.write_text("[worker]\nthreads = 2\n[actor]\nenvs = 9\n")
    assert config.read_settings("learner", file) == {}
    assert config.read_settings("actor", file) == {"envs": 9}
    assert config.read_settings("worker", file) == {"threads": 2}


@pytest.mark.parametrize("word", ["FARFLUNG_WORKER_ENV", "FARFLUNG_WORKER_RATE"])
def test_variable_that_no_worker_has_is_refused(asked, monkeypatch, word):
    """It would do nothing."""
    monkeypatch.setenv(word, "3")
    with pytest.raises(UsageError, match=f"unknown variable {word}"):
        asked()


def test_options_of_actors_are_not_listed(asked, capsys):
    """The help has what a worker takes, under the name that its reader typed."""
    assert asked("--help") is None
    said = capsys.readouterr().out
    assert "Usage: learner worker [ADDRESSES] [OPTIONS]" in said
    assert all(flag in said for flag in ("--threads", "--device", "--envs", "--config"))
    assert [word for word in OF_ACTORS if f"--{word}" in said] == []
    assert "FARFLUNG_WORKER_FEED_PORT" in said


@pytest.mark.parametrize("word", OF_ACTORS)
def test_option_of_actors_is_refused_with_its_reason(asked, tmp_path, word):
    """On the command line, and in a file."""
    with pytest.raises(UsageError, match=rf"--{word} is unknown here\. \w+"):
        asked(f"--{word}=1")
    file = tmp_path / "worker.toml"
    file.write_text(f"{word} = 1\n")
    with pytest.raises(UsageError, match=rf"{word} in .* is unknown here\. \w+"):
        asked("--config", str(file))


def test_words_of_other_libraries_are_understood(asked, capsys):
    """As an actor understands them, with a hint."""
    assert asked("--num-envs", "4").environments == 4
    assert "learner worker: --num-envs is called --envs here" in capsys.readouterr().err


def test_worker_needs_a_thread():
    """Torch would take none for all."""
    with pytest.raises(UsageError, match="--threads"):
        WorkerConfig(threads=0)
