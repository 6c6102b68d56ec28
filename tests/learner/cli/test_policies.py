"""The commands `learner evaluate` and `learner export`."""

import json

import pytest
from support import worlds
from support.learners import a_policy_run

from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.learner.main import command

assert worlds

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of CartPole with a policy."""
    return a_policy_run(tmp_path_factory.mktemp("runs"), environment="CartPole-v1")


def test_evaluate_prints_the_mean_and_its_interval(run, capsys):
    """The best checkpoint is the default."""
    assert command(["evaluate", str(run), "--episodes", "4", "--seed", "2"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("CartPole-v1, best checkpoint: version 1.1, ")
    assert said[1] == "4 of 4 episodes, greedy, seed 2"
    assert said[2].startswith("return ")
    assert "(95 % interval)" in said[2]


def test_evaluate_prints_one_line_of_json(run, capsys):
    """Nothing else is on standard output."""
    words = ["evaluate", str(run), "--episodes", "3", "--checkpoint", "last", "--json"]
    assert command(words) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["checkpoint"], facts["episodes"], len(facts["returns"])) == ("last", 3, 3)


def test_evaluate_writes_how_far_it_is(run, capsys, monkeypatch):
    """A silent second looks like a hang."""
    from farflung.learner.cli import progress

    monkeypatch.setattr(progress, "CALM_S", 0.0)
    command(["evaluate", str(run), "--episodes", "2"])
    said = capsys.readouterr().err
    assert f"evaluating {run}" in said
    assert "1 of 2 episodes" in said


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (["evaluate", "--episodes", "3"], UsageError, "RUN"),
        (["evaluate", "{run}", "--episodes", "0"], UsageError, "--episodes must be at least 1"),
        (
            ["evaluate", "{run}", "--checkpoint", "77"],
            ConfigurationError,
            "best, last, or one of 1",
        ),
        (["evaluate", "{run}/nowhere"], ConfigurationError, "not the folder of a run"),
        (["export", "{run}"], UsageError, "--to-hub"),
        (["export", "{run}", "a.onnx", "--to-hub", "me/a"], UsageError, "--to-hub"),
        (["export", "{run}", "a.pt"], UsageError, "ends with .onnx"),
        (["export", "{run}", "a.onnx", "--format", "safetensors"], UsageError, "safetensors"),
    ],
)
def test_mistakes_are_named(run, words, error, said):
    """In a sentence."""
    with pytest.raises(error, match=said.replace(".", r"\.")):
        command([word.replace("{run}", str(run)) for word in words])


def test_export_says_what_was_proved(run, tmp_path, capsys):
    """Of a run without a journal, random observations alone."""
    file = tmp_path / "a.onnx"
    assert command(["export", str(run), str(file)]) == 0
    assert "on 0 recorded and 1,000 random observations" in capsys.readouterr().out
    weights = tmp_path / "a.safetensors"
    assert command(["export", str(run), str(weights), "--format", "safetensors"]) == 0
    assert f"{weights}, with {tmp_path}/README.md" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "README.md",
        "a.onnx",
        "a.safetensors",
    ]
