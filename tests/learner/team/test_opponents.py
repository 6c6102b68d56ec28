"""Policies that learn nothing: random actions, a script, and the policy of another run."""

from dataclasses import replace

import numpy as np
import pytest
from support import games
from support.learners import a_config
from support.team import Team

from farflung.actor.worlds import registered
from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.learner.config import LearnerConfig
from farflung.learner.core.spec import shared_world
from farflung.learner.storage import policies
from farflung.learner.team import frozen, opponents

GAME = {"environment": "duel", "policies": "red=player_0; blue=player_1"}


@pytest.fixture
def team(tmp_path, monkeypatch):
    """Return the team; nothing of it is sent anywhere."""
    monkeypatch.setitem(registered.WORLDS, "duel", games.load("tictactoe").env)
    return Team(tmp_path)


def test_opponents_are_scripts_or_runs(team):
    """A registered name is a script; another one is looked for among the runs."""
    config = a_config(**GAME, opponent=("blue=win_or_block", "red = runs/other@1.120"))
    assert opponents.scripts(config) == {"blue": "win_or_block"}
    assert opponents.frozen(config) == {"red": "runs/other@1.120"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("blue=runs/none",), "there is no run runs/none, and no such script"),
        (("green=random",), "names no such policy, but red, blue"),
        (("red=random", "blue=random"), "one at least must learn"),
        (("red=random",), "it needs no learner"),
    ],
)
def test_opponents_that_cannot_play_are_refused(team, given, says):
    """In a sentence, before anything is started."""
    with pytest.raises(ConfigurationError, match=says):
        shared_world(a_config(**GAME, policy="red", opponent=given))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"opponent": ("red=random",)}, "name the policies of the world too"),
        ({"policies": "auto", "opponent": ("random",)}, "write POLICY=WHO"),
        ({"policies": "auto", "opponent": ("red=random", "red=x")}, "names red twice"),
    ],
)
def test_words_that_name_no_opponent_are_refused(changes, says):
    """By their form alone."""
    with pytest.raises(UsageError, match=says):
        replace(LearnerConfig(), **changes)


@pytest.mark.slow
@pytest.mark.parametrize("who", ["random", "win_or_block"])
def test_script_plays_a_policy_without_a_learner(team, who):
    """Of its seats no row is kept, and runs with one seed have the same hashes."""
    for name in ("one", "two"):
        assert team.train(name, opponent=(f"blue={who}",)) == 0
    assert team.hashes("one") == team.hashes("two")
    assert team.hashes().keys() == {"red"}
    assert not team.run("blue").exists()
    assert team.last.policies["red"].learner.steps >= 200


@pytest.mark.slow
def test_policy_of_another_run_plays_as_it_was(team):
    """It publishes the same weights for good, explores by its own rule, and records nothing."""
    team.train("one")
    given = {"opponent": (f"blue={team.run('blue')}@last",)}
    assert team.train("two", evaluate_every=100, evaluate_episodes=2, **given) == 0
    assert team.hashes("two").keys() == {"red"}
    assert team.last.policies["red"].learner.evaluation.episodes == 2
    config = a_config(**GAME, policy="blue", pool_exploration=0.25, actors=0, **given)
    spec, weights = frozen.read(config, opponents.frozen(config)["blue"])
    kept = policies.read_weights(team.run("blue"), policies.read_spec(team.run("blue")), "last")
    assert spec.frozen
    assert (spec.exploration.start, spec.exploration.end) == (0.25, 0.25)
    assert bytes(weights.block) == bytes(kept.block)
    assert all(np.isfinite(array).all() for array in weights.arrays.values())


@pytest.mark.slow
def test_policy_of_another_world_is_refused(team, monkeypatch):
    """The sentence names the difference."""
    team.train("one")
    monkeypatch.setitem(registered.WORLDS, "hunt", games.load("treasurehunt").parallel_env)
    config = a_config(
        environment="hunt",
        policies="red=agent_0; blue=*",
        policy="red",
        actors=0,
        opponent=(f"red={team.run('red')}",),
    )
    with pytest.raises(ConfigurationError, match="the observations of red in hunt are"):
        frozen.read(config, str(team.run("red")))
