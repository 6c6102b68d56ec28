"""Evaluations of policies that play one world together."""

import json

import pytest
from support.agents import AGENTS, Circle
from support.learners import a_policy_run

from farflung.actor.scripts import SCRIPTS
from farflung.actor.worlds import registered
from farflung.common.process.errors import ConfigurationError
from farflung.learner.policies import evaluating, report
from farflung.learner.policies.asked import Asked

pytestmark = pytest.mark.slow

GROUPS = "red=bob; blue=*"


@pytest.fixture
def team(tmp_path, monkeypatch):
    """The folder of a team with runs of two policies in a world of four agents."""
    monkeypatch.setitem(registered.WORLDS, "circle", Circle)
    for policy in ("red", "blue"):
        shared = {"environment": "circle", "policies": GROUPS, "mode": "async"}
        a_policy_run(tmp_path, policy, policy=policy, **shared)
    (tmp_path / "team.toml").touch()
    return tmp_path


def test_all_policies_of_a_team_are_evaluated_together(team, stop):
    """In the order of `--policies`, with the return of all agents."""
    found = evaluating.evaluate_team(team, Asked(episodes=4), stop, pytest.fail)
    assert [each.spec.policy for each in found] == ["red", "blue"]
    # An agent that an episode is without plays it too, with no result.
    assert all(0 < len(each.results.returns) <= 4 for each in found)
    document = report.team_document(found)
    means = {policy: each["mean"] for policy, each in document["policies"].items()}
    agents = len(AGENTS) - 1
    assert document["mean_of_all_agents"] == pytest.approx(means["red"] + agents * means["blue"])
    text = report.team_text(found)
    assert "policy red (bob): circle, best checkpoint" in text
    assert "return of all agents: " in text


def test_one_policy_is_evaluated_among_the_others(team, stop):
    """It has the same episodes as in an evaluation of all; without the others it is refused."""
    asked = Asked(episodes=4)
    alone = evaluating.evaluate(team / "blue", asked, stop, pytest.fail)
    together = evaluating.evaluate_team(team, asked, stop, pytest.fail)
    assert alone.results.returns.tolist() == together[1].results.returns.tolist()
    (team / "red").rename(team / "other")
    with pytest.raises(ConfigurationError, match="there is no run of red beside it"):
        evaluating.evaluate(team / "blue", asked, stop, pytest.fail)
    with pytest.raises(ConfigurationError, match="there is no run of red beside it"):
        evaluating.evaluate_team(team, asked, stop, pytest.fail)


def test_scripts_and_policies_of_other_runs_play_as_in_training(tmp_path, stop, monkeypatch):
    """They have no figures of their own; a run that is gone is named."""
    monkeypatch.setitem(registered.WORLDS, "circle", Circle)
    calls = []
    monkeypatch.setitem(SCRIPTS, "first", lambda seen, mask, rng: calls.append(1) or 0)
    another = {"environment": "circle", "policies": "red=bob; blue=*", "mode": "async"}
    frozen = a_policy_run(tmp_path, "old", policy="red", **another)
    folder = tmp_path / "team"
    folder.mkdir()
    opponents = ("green=first", f"red={frozen}@last")
    shared = another | {"policies": "red=bob; green=ann; blue=*", "opponent": opponents}
    run = a_policy_run(folder, "blue", policy="blue", **shared)
    (folder / "team.toml").write_text(f"opponent = {json.dumps(opponents)}\n")
    (each,) = evaluating.evaluate_team(folder, Asked(episodes=4), stop, pytest.fail)
    assert each.spec.policy == "blue"
    assert 0 < len(each.results.returns) <= 4
    assert calls
    alone = evaluating.evaluate(run, Asked(episodes=4), stop, pytest.fail)
    assert alone.results.returns.tolist() == each.results.returns.tolist()
    frozen.rename(tmp_path / "gone")
    with pytest.raises(ConfigurationError, match=r"policy red was that of .*, which is not here"):
        evaluating.evaluate_team(folder, Asked(episodes=4), stop, pytest.fail)
