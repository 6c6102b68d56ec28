"""Evaluations of a run's checkpoint."""

import numpy as np
import pytest
from support import worlds
from support.learners import a_policy_run

from farflung.actor.evaluator import greedy
from farflung.actor.play import Play
from farflung.actor.worlds.gymnasium import open_world
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.process.errors import ConfigurationError, EnvironmentFailure, UsageError
from farflung.learner.policies import evaluating, report
from farflung.learner.policies.asked import Asked
from farflung.learner.storage import policies

pytestmark = pytest.mark.slow


def evaluated(run, stop, **wishes):
    """Return an evaluation, which no environment disturbs."""
    asked = Asked(**wishes)
    return evaluating.evaluate(run, asked, stop, pytest.fail)


@pytest.fixture(scope="module")
def corridor(tmp_path_factory):
    """A run that walks to the left for ever: its values are all zero, and 0 is the first action."""
    import torch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "normal_", lambda tensor, **_: tensor.zero_())
        return a_policy_run(tmp_path_factory.mktemp("corridor"), environment="toys/Corridor-v0")


def test_evaluation_plays_as_the_runs_evaluator_on_other_start_states(run_of, stop):
    """The same episodes as an evaluator at that place of the seed tree; others in its own place."""
    run = run_of("plain")
    found = evaluated(run, stop, episodes=7, seed=3)
    spec = policies.read_spec(run)
    weights = policies.read_weights(run, spec, "best")
    results = []
    for key in ((evaluating.ROLE, 3), ("evaluation", 0, 0)):
        from msgspec import structs

        from farflung.common.data.spec import Evaluation

        spec = structs.replace(spec, evaluation=Evaluation(1, 7))
        around = Surroundings(pytest.fail, lambda _: None, lambda: 0.0)
        play = Play(open_world(spec, 7, key=key, around=around), {spec.policy: greedy(spec, 7)})
        play.begin(weights, 0)
        play.reset()
        while not play.full:
            play.step()
        results.append(play.players[spec.policy].parcels()[0].results.returns.tolist())
    assert found.results.returns.tolist() == results[0] != results[1]


def test_evaluation_repeats_by_its_seed(run_of, stop):
    """Another seed has other episodes, greedy or as trained; a checkpoint has its own."""
    run = run_of("plain")
    found = [
        evaluated(run, stop, episodes=9, **wishes).results.returns.tolist()
        for wishes in (
            {},
            {"seed": 1},
            {"as_trained": True},
            {"as_trained": True, "seed": 1},
            {"checkpoint": "last"},
        )
    ]
    assert len({tuple(returns) for returns in found}) == len(found)
    assert evaluated(run, stop, episodes=9).results.returns.tolist() == found[0]
    again = evaluated(run, stop, episodes=9, as_trained=True)
    assert again.results.returns.tolist() == found[2]


def test_more_episodes_than_seats_are_played_in_turn(run, stop):
    """Of each kind of run."""
    found = evaluated(run, stop, episodes=23, max_steps=40)
    assert len(found.results.returns) == 23
    assert found.results.lengths.max() <= 40


def test_episode_that_never_ends_is_cut_and_counted(corridor, stop):
    """A policy that walks into a wall for ever."""
    found = evaluated(corridor, stop, episodes=5, max_steps=11)
    assert found.results.lengths.tolist() == [11] * 5
    assert (found.cut, found.interval) == (5, (0.0, 0.0))
    said = report.text(found, None)
    assert "5 of them were cut after 11 steps" in said
    assert report.document(found)["cut"] == 5


def test_stopped_evaluation_has_the_episodes_that_ended(run_of, stop):
    """As after Ctrl-C."""

    def interrupt(steps, episodes):
        if episodes >= 3:
            stop.set("SIGINT", 130)

    asked = Asked(episodes=100)
    found = evaluating.evaluate(run_of("plain"), asked, stop, pytest.fail, interrupt)
    assert 3 <= len(found.results.returns) < 100
    assert f"{len(found.results.returns)} of 100 episodes" in report.text(found, None)


def test_evaluation_that_is_stopped_at_once_says_so(run_of, stop):
    """Without an episode there is no mean."""
    stop.set("SIGINT", 130)
    found = evaluated(run_of("plain"), stop)
    assert "0 of 100 episodes" in report.text(found, None)
    assert report.document(found)["mean"] is None


def test_environment_that_fails_ends_the_evaluation(tmp_path, stop):
    """With its error, after some tries."""
    arguments = ('{"steps": [8, 9, 10, 11, 12, 13, 14, 15, 16, 17]}',)
    run = a_policy_run(tmp_path, environment="toys/Faulty-v0", environment_arguments=arguments)
    problems = []
    worlds.Faulty.counts.clear()  # of other tests
    stop.set("no pause")
    stop.reason = ""
    with pytest.raises(EnvironmentFailure, match="one of the steps failed"):
        evaluating.evaluate(run, Asked(), stop, lambda *problem: problems.append(problem))
    assert len(problems) >= 5


@pytest.mark.parametrize(
    "wishes",
    [
        {"episodes": 0},
        {"max_steps": 0},
        {"video_episodes": 0},
        {"seed": -1},
        {"video": "a.mp4", "render": True},
    ],
)
def test_impossible_wishes_are_refused(wishes):
    """In a sentence."""
    with pytest.raises(UsageError, match="--"):
        Asked(**wishes)


def test_figures_are_those_of_the_episodes(run_of, stop):
    """As text and as data; the interval of one episode has no end."""
    found = evaluated(run_of("plain"), stop, episodes=4)
    returns, facts = found.results.returns, report.document(found)
    assert facts["mean"] == pytest.approx(float(np.mean(returns)))
    low, high = facts["interval_95"]
    assert low < facts["mean"] < high
    best = policies.read_best(run_of("plain"))
    said = report.text(found, best)
    assert f"return {found.interval} (95 % interval)" in said
    assert "while it trained: 2.0 ± 12.7 over 2 episodes" in said
    one = evaluated(run_of("plain"), stop, episodes=1, checkpoint="1")
    assert report.document(one)["interval_95"] is None
    assert "number 1 checkpoint" in report.text(one, best)
    assert f"return {one.results.returns[0]:.1f} (one value); length" in report.text(one, best)
    assert "while it trained" not in report.text(one, best)


def test_environment_that_is_not_there_is_named(run_of, stop, monkeypatch):
    """The run's package is not imported here, say."""
    import gymnasium

    monkeypatch.delitem(gymnasium.registry, "toys/Parts-v0")
    with pytest.raises(ConfigurationError, match="no environment is registered"):
        evaluated(run_of("parts"), stop)
