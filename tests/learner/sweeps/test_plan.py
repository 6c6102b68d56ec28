"""The file of a sweep: taken as written, and each mistake in a sentence."""

import re
from pathlib import Path

import pytest
from support.sweeps import a_plan

from farflung.common.process.errors import UsageError
from farflung.learner.config import load as load_settings
from farflung.learner.sweeps import plan, settings
from farflung.learner.sweeps.space import Choices, Range

ROOT = Path(__file__).parents[3]
GOOD = """\
[sweep]
trials = 4
[learner]
env = "CartPole-v1"
steps = 400
evaluate-every = 100
[learner.dqn]
gamma = 0.9
[space]
dqn.learning-rate = { low = 1e-4, high = 1e-2, log = true }
"""


def changed(tmp_path, *changes):
    text = GOOD
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path = tmp_path / "toy.toml"
    path.write_text(text)
    return path


def test_plan_of_a_file(tmp_path):
    """With the defaults of what is not written."""
    found = plan.load(changed(tmp_path))
    assert (found.name, found.sweep.trials, found.sweep.seeds) == ("toy", 4, (0,))
    assert (found.metric, found.every, found.maximize) == ("eval/mean_reward", 100, True)
    assert (found.prunes, found.journaled) == (True, True)
    assert found.space == {"dqn.learning-rate": Range(1e-4, 1e-2, log=True)}


def test_example_is_a_plan_with_eight_trials():
    """The file that the document shows."""
    found = plan.load(ROOT / "docs/cartpole.toml")
    assert found.sweep.trials == 8
    assert found.space["dqn.hidden"] == Choices(([64, 64], [128, 128]))
    shown = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/sweeps.md").read_text(), re.DOTALL)
    assert (ROOT / "docs/cartpole.toml").read_text() in shown


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("trials = 4", "trails = 4", r"unknown key trails in .*toy.toml. Did you mean trials\?"),
        ("trials = 4", "trials = 0", r"\[sweep\] in .*: Expected `int` >= 1 - at `\$.trials`"),
        ("trials = 4", "take = 'first'", "Invalid enum value 'first'"),
        ("trials = 4", "seeds = 3", "Expected `array`, got `int` - at `\\$.seeds`"),
        ("trials = 4", "seeds = []", r"seeds .*: at least one, such as \[0\]"),
        ("trials = 4", "objective = 'evaluations'", "unknown objective evaluations"),
        ("trials = 4", "objective = 'steps'\npruner = 'median'", 'write "none"'),
        ("trials = 4", "name = 'a b'", "the name 'a b'"),
        (
            "[sweep]",
            "[sweeps]",
            r"sweeps in .*: the sections are \[sweep\], \[learner\], \[space\]",
        ),
        ("gamma = 0.9", "gama = 0.9", r"unknown key dqn.gama in .* Did you mean dqn.gamma\?"),
        ("steps = 400", "step = 400", r"unknown key step in .* Did you mean (steps|stack)\?"),
        ("steps = 400", "steps = 'x'", "a trial cannot start with dqn.learning-rate = 0.0001: .*"),
        ("steps = 400", "", "has no end: set steps, or until"),
        ("steps = 400", "steps = 400\nseed = 3", r"seed in .*: write seeds into \[sweep\]"),
        ("evaluate-every = 100", "evaluate-every = 0", "none will run: set evaluate-every"),
        ("dqn.learning-rate", "learning_rate", r"Did you mean dqn.learning-rate\?"),
        ("dqn.learning-rate", "dqn.gamma", "dqn.gamma in .* is both fixed and searched"),
        ("low = 1e-4", "low = '1'", "low is no number"),
        ("[learner]", "learner", "is not TOML"),
    ],
)
def test_mistake_is_named(tmp_path, before, after, said):
    """In one sentence, before any trial."""
    with pytest.raises(UsageError, match=said) as refusal:
        plan.load(changed(tmp_path, (before, after)))
    assert "\n" not in str(refusal.value)


def test_choice_that_the_learner_refuses_is_named(tmp_path):
    """Each choice is tried before the first trial."""
    path = changed(tmp_path, ("[space]", "[space]\nhorizon = [32, 64, 0]"))
    with pytest.raises(UsageError, match=r"horizon = 0.*--horizon must be at least 1"):
        plan.load(path)


def test_missing_file_and_missing_space_are_named(tmp_path):
    """There is nothing to search."""
    with pytest.raises(UsageError, match="cannot be read"):
        plan.load(tmp_path / "none.toml")
    path = tmp_path / "toy.toml"
    path.write_text("[learner]\nsteps = 4\n")
    with pytest.raises(UsageError, match=r"has no \[space\]"):
        plan.load(path)


def test_variables_of_the_learner_are_refused(monkeypatch):
    """They would come before the searched settings without a word."""
    monkeypatch.setenv("FARFLUNG_LEARNER_REPLAY_RATIO", "8")
    with pytest.raises(UsageError, match="FARFLUNG_LEARNER_REPLAY_RATIO: the settings of a sweep"):
        settings.require_no_variables()


def test_settings_of_a_trial_are_a_file_of_the_learner(tmp_path):
    """Chosen values take their sections, and fixed ones stay."""
    found = plan.load(changed(tmp_path))
    chosen = {"dqn.learning-rate": 0.003, "dqn.hidden": [64, 32], "replay-ratio": 4}
    path = tmp_path / "trial.toml"
    path.write_text(settings.text(settings.merged(found.fixed, chosen)))
    config = load_settings(["--config", str(path)]).config
    assert (config.settings.learning_rate, config.settings.hidden) == (0.003, (64, 32))
    assert (config.settings.gamma, config.replay_ratio, config.steps) == (0.9, 4.0, 400)
    assert "dqn.learning-rate" not in settings.plain(found.fixed)


def test_only_what_makes_trials_incomparable_is_essential(tmp_path):
    """More trials may be asked for later."""
    first = a_plan(tmp_path, "trials = 4")
    assert first.essence == a_plan(tmp_path, "trials = 8", "pruner = 'none'").essence
    assert first.essence != a_plan(tmp_path, "seeds = [0, 1]").essence
