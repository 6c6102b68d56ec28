"""Keywords of `farflung.train` mean what the flags mean; sentences about them are in Python."""

import math
from pathlib import Path

import numpy as np
import pytest

from farflung.common.process.errors import UsageError
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.api import keywords
from farflung.learner.api.train import configuration


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"steps": 10, "until": None}, ["--steps=10"]),
        ({"replay_ratio": math.inf}, ["--replay-ratio=inf"]),
        ({"replay_ratio": np.float32(0.1)}, ["--replay-ratio=0.10000000149011612"]),
        ({"warmup": np.int64(7)}, ["--warmup=7"]),
        ({"compress": False, "insecure": True}, ["--compress=false", "--insecure=true"]),
        ({"imports": ["a", "b"]}, ["--import=a", "--import=b"]),
        ({"run_dir": Path("/x")}, ["--run-dir=/x"]),
        ({"env_args": {"map": [1, "x"]}}, ['--env-args={"map": [1, "x"]}']),
        ({"wrapper": ["A", ("B", {"n": 2})]}, ["--wrapper=A", '--wrapper=B:{"n": 2}']),
        (
            {"dqn": {"hidden": (64, 32), "learning_rate": 1e-3}},
            ["--dqn.hidden=64", "--dqn.hidden=32", "--dqn.learning-rate=0.001"],
        ),
    ],
)
def test_keywords_become_flags(settings, words):
    """Written by hand: exact numbers, repeated flags for lists, JSON for dictionaries."""
    assert keywords.words(settings) == words


def test_settings_of_an_algorithm_may_be_its_dataclass():
    """All of its values are taken over."""
    asked = DQNSettings(hidden=(8,), learning_rate=0.5, double=False)
    assert configuration({"dqn": asked}).config.settings == asked


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"bach_size": 3}, "unknown setting bach_size. Did you mean batch_size?"),
        (
            {"dqn": {"lerning_rate": 1.0}},
            'unknown setting dqn={"lerning_rate": …}. Did you mean dqn={"learning_rate": …}?',
        ),
        ({"batch_size": "many"}, 'Invalid value for batch_size: unable to convert "many" into int'),
        ({"horizon": 1}, "horizon 1 is shorter than the 3 steps of a return"),
        ({"until": "evaluation > 1", "evaluate_every": 0}, "add evaluate_every"),
        ({"steps": {1, 2}}, "steps={1, 2}: write a number, a text, or a list of them"),
        ({"env_args": {"a": object}}, "cannot be sent to actors as JSON"),
        ({"wrapper": [3]}, "write NAME, or a list of pairs (NAME, {arguments})"),
    ],
)
def test_impossible_settings_are_refused_in_the_words_of_python(settings, sentence):
    """In one sentence, with the nearest match; without the parser's own traceback."""
    with pytest.raises(UsageError) as refusal:
        configuration(settings)
    assert sentence in str(refusal.value)
    assert "--" not in str(refusal.value)
    assert refusal.value.__suppress_context__


def test_python_has_two_defaults_of_its_own():
    """Actors where the command has none; lines where a debugger may want the terminal."""
    found = configuration({})
    assert (found.config.actors, found.config.ui) == ("auto", "auto")
    found = configuration({"mode": "sequential"})
    assert (found.config.actors, found.config.ui) == (0, "lines")
    found = configuration({"mode": "sequential", "ui": "panel", "actors": 2})
    assert (found.config.actors, found.config.ui) == (2, "panel")
    assert configuration({"actors": 0}).config.actors == 0


def test_words_of_other_libraries_are_taken_with_a_hint(capsys):
    """As by the command, with a hint about keywords."""
    found = configuration({"total_timesteps": 700, "learning_rate": 0.25}).config
    assert (found.steps, found.settings.learning_rate) == (700, 0.25)
    said = capsys.readouterr().err
    assert "total_timesteps is called steps here" in said
    assert 'learning_rate is called dqn={"learning_rate": …} here' in said


def test_variables_and_a_file_count_as_for_the_command(monkeypatch, tmp_path):
    """Below the keywords."""
    file = tmp_path / "settings.toml"
    file.write_text("actors = 3\nwarmup = 50\nsteps = 1\n")
    monkeypatch.setenv("FARFLUNG_LEARNER_WARMUP", "60")
    config = configuration({"config": file, "steps": 2}).config
    assert (config.actors, config.warmup, config.steps) == (3, 60, 2)
