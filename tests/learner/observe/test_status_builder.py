"""The builder of a status, from settings, core, network and clock."""

import numpy as np
import pytest
import torch
from support import games
from support.learners import a_config, a_learner, an_empty_run

from farflung.common.data.parcel import Ending, Parcel, Results
from farflung.common.data.weights import Version
from farflung.common.protocol.messages import State
from farflung.learner.core.pacing import Cause
from farflung.learner.core.progress import EvaluationResult
from farflung.learner.observe.endpoint_status import EndpointStatus
from farflung.learner.observe.status import ActorState, ActorStatus, FigureStatus, WaitingStatus
from farflung.learner.observe.status_builder import PROBLEMS, StatusBuilder


@pytest.fixture
def core(tmp_path):
    """Return the core of a small run in sequential mode."""
    return a_learner(a_config(steps=100, until="steps > 5"), tmp_path).core


@pytest.fixture
def overview(tmp_path, core):
    """Return the builder for the same run."""
    return StatusBuilder(
        a_config(steps=100, until="steps > 5"), an_empty_run(tmp_path), core, "cpu"
    )


def evaluated(mean, version):
    """Return the result of an evaluation of one episode."""
    return EvaluationResult(
        10, Version(1, version), Results(np.array([mean]), np.array([3], np.int32))
    )


def test_status_of_a_new_run_shows_its_settings(overview, tmp_path):
    """The status has the settings; figures that are not known yet are None, not 0."""
    overview.join = "actor box:5555"
    status = overview.status(EndpointStatus(), 0.0)
    assert (status.run, status.policy, status.mode, status.environment, status.algorithm) == (
        "one-1",
        "default",
        "sequential",
        "CartPole-v1",
        "dqn",
    )
    assert (status.device, status.folder, status.join) == ("cpu", str(tmp_path), "actor box:5555")
    assert (status.steps_target, status.until, status.ratio_wanted) == (100, "steps > 5", 1.0)
    assert (status.return_mean, status.evaluation, status.steps_per_second) == (None, None, None)
    assert (status.metrics, status.replay_capacity) == ({"epsilon": 1.0}, 500)
    assert status.waiting == WaitingStatus(Cause.WARMUP, 24, 1.0)


def test_status_waits_for_the_first_actor(tmp_path, core):
    """Until one is heard, with the number of those that start here; not once the run is over."""
    overview = StatusBuilder(a_config(mode="async"), an_empty_run(tmp_path), core, "cpu")
    overview.own_actors = 2
    assert overview.status(EndpointStatus(), 0.0).waiting == WaitingStatus(Cause.ACTORS, 2, 1.0)
    over = overview.status(EndpointStatus(), 0.0, State.STOP)
    heard = overview.status(
        EndpointStatus(actors=(ActorStatus("local-0", ActorState.RUNNING),)), 0.0
    )
    assert over.waiting.cause == heard.waiting.cause == Cause.WARMUP


def test_status_has_the_metrics_of_algorithm_and_exploration(overview, core):
    """The builder passes metrics of any name on."""
    for value in (1.0, 3.0):
        core.update_metrics.add({"anything": torch.tensor(value)})
    core.state.steps = core.spec.exploration.steps
    status = overview.status(EndpointStatus(), 0.0)
    assert status.metrics == {"anything": 2.0, "epsilon": pytest.approx(0.05)}


def test_status_of_rounds_follows_their_options(tmp_path):
    """After 6 of 10 rounds; with a number of updates there is no ratio to hold."""
    config = a_config(mode="sync", actors=1, round_updates=2, exploration_rounds=10)
    core = a_learner(config, tmp_path).core
    core.state.version = Version(1, 7)
    status = StatusBuilder(config, an_empty_run(tmp_path), core, "cpu").status(EndpointStatus(), 0)
    assert status.ratio_wanted is None
    assert status.metrics["epsilon"] == pytest.approx(1 - 0.6 * 0.95)


def test_status_has_what_a_caller_recorded(overview, core):
    """Mean, spread and count stand under the name of the curve."""
    for value in (1.0, 0.0, 1.0, 1.0):
        core.record("grasped", value)
    core.record("arm/force", np.float32(2.5))
    assert overview.status(EndpointStatus(), 0.0).figures == {
        "train/grasped": FigureStatus(0.75, 0.5, 4),
        "arm/force": FigureStatus(2.5, None, 1),
    }


def finished(count, **metrics):
    """Return the results of episodes of one step with these metrics, the same in all."""
    values = {name: np.full(count, value) for name, value in metrics.items()}
    return Results(np.ones(count), np.ones(count, np.int32), values)


def test_status_has_the_metrics_of_episodes(overview, core):
    """Those of training and those of the newest evaluation stand apart."""
    core.progress.add(finished(4, is_success=1.0, grip=2.5), Version(1, 1), Version(1, 1))
    core.progress.evaluation = EvaluationResult(0, Version(1, 1), finished(2, is_success=0.0))
    assert overview.status(EndpointStatus(), 0.0).figures == {
        "rollout/success_rate": FigureStatus(1.0, 0.0, 4),
        "rollout/grip": FigureStatus(2.5, 0.0, 4),
        "eval/success_rate": FigureStatus(0.0, 0.0, 2),
    }


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({}, ""),
        ({"metrics": ("grip", "force")}, "force"),
        ({"until": "success_rate > 0.9"}, "is_success"),
        ({"until": "eval/success_rate > 0.9", "evaluate_every": 9}, "is_success"),
    ],
)
def test_metric_that_no_episode_reports_is_named(tmp_path, caplog, settings, missing):
    """A misspelt name would be waited for without end. Twenty episodes are enough to tell."""
    config = a_config(**settings)
    core = a_learner(config, tmp_path).core
    overview = StatusBuilder(config, an_empty_run(tmp_path), core, "cpu")
    core.progress.add(finished(19, grip=2.5), Version(1, 1), Version(1, 1))
    assert overview.status(EndpointStatus(), 0.0).problems == ()
    core.progress.add(finished(1, grip=2.5), Version(1, 1), Version(1, 1))
    problems = [overview.status(EndpointStatus(), 0.0).problems for _ in range(3)]
    told = f"no episode has reported {missing} in its info yet"
    assert [told in " ".join(each) for each in problems] == [bool(missing)] * 3
    assert ("SuccessFromReturn" in caplog.text) is (missing == "is_success")
    assert caplog.text.count(told) == bool(missing)


def test_status_shows_the_most_frequent_wait_of_the_last_seconds(overview, core):
    """A single moment would show chance: the side that waits changes many times a second."""
    pacing = core.pacing
    # After a warm-up of 16 rows, in batches of 8, with a tolerance of 32.
    rows = {"updates": 16, "neither": 24, "collection": 48}

    def wait_after(times, side):
        for _ in range(times):
            pacing.rows = rows[side]
            wait = overview.status(EndpointStatus(), 0.0).waiting
        return wait

    wait_after(5, "updates")
    wait_after(13, "collection")
    wait = wait_after(3, "neither")  # the first of the 21 is forgotten
    assert wait == WaitingStatus(Cause.UPDATES, 0, 0.65)
    assert wait_after(16, "updates") == WaitingStatus(Cause.WARMUP, 8, 0.8)
    assert wait_after(20, "neither") == WaitingStatus()


def test_status_computes_rates_from_the_clock(overview, core):
    """40 steps and 10 updates in 2 s are 20 and 5 a second."""
    overview.status(EndpointStatus(), 0.0)
    core.state.steps, core.state.updates = 40, 10
    status = overview.status(EndpointStatus(), 2.0)
    assert (status.steps_per_second, status.updates_per_second) == (20.0, 5.0)


def test_status_shows_the_seconds_without_progress(overview, core):
    """Seconds count from the last growth of steps or updates."""
    overview.status(EndpointStatus(), 1.0)
    assert overview.status(EndpointStatus(), 4.0).idle_seconds == 3.0
    core.state.updates = 1
    assert overview.status(EndpointStatus(), 5.0).idle_seconds == 0.0


def test_status_keeps_the_best_evaluation(overview, core):
    """The status has the newest evaluation and the best mean so far."""
    for mean, version in ((5.0, 1), (9.0, 2), (7.0, 3)):
        core.progress.evaluation = evaluated(mean, version)
        status = overview.status(EndpointStatus(), 0.0)
    assert (status.evaluation.mean, status.evaluation.version, status.evaluation.best) == (
        7.0,
        3,
        9.0,
    )


def test_status_knows_the_best_evaluation_of_an_earlier_epoch(overview, core):
    """A resumed run does not begin again with the first evaluation after it."""
    overview.best = 9.0
    core.progress.evaluation = evaluated(5.0, 1)
    assert overview.status(EndpointStatus(), 0.0).evaluation.best == 9.0


def test_status_counts_and_names_episodes_that_were_cut(overview, core):
    """One of two episodes reached the cap of the spec; the next evaluation has none."""
    most = core.spec.evaluation.max_steps
    for lengths, cut in (([most, most - 1], 1), ([3, 4], 0)):
        results = Results(np.array([1.0, 2.0]), np.array(lengths, np.int32))
        core.progress.evaluation = EvaluationResult(10, Version(1, 1), results)
        status = overview.status(EndpointStatus(), 0.0)
        assert status.evaluation.cut == cut
        assert [text for text in status.problems if "were cut after 27,000 steps" in text] == (
            [overview.noticed] if cut else []
        )


def test_status_reports_suspicious_observations(overview, core):
    """The sentence about observations is the first of the problems."""
    core.progress.constant_observations.verdict = "the observations are all zero"
    overview.problems.append("local-0 ended")
    status = overview.status(EndpointStatus(problems=("box-1: environment: no",)), 0.0)
    assert status.problems == (
        "the observations are all zero",
        "box-1: environment: no",
        "local-0 ended",
    )


def test_status_counts_skipped_steps_and_names_abandoned_weights(overview, core):
    """The status has the counter and the sentence of the guard."""
    core.guard.skipped = 12
    core.guard.sentence = "the weights in head.bias were not finite"
    status = overview.status(EndpointStatus(), 0.0)
    assert (status.skipped, status.problems) == (12, ("the weights in head.bias were not finite",))


def test_status_keeps_only_the_latest_problems(overview):
    """The list of problems has a bound, also when children die often."""
    overview.problems.extend(str(n) for n in range(100))
    assert overview.status(EndpointStatus(), 0.0).problems == tuple(
        str(n) for n in range(100 - PROBLEMS, 100)
    )


def test_status_has_the_counters_of_the_endpoint(overview):
    """The status has actors, received, duplicates, lost, and refused by reason."""
    actor = ActorStatus("box-1", "running")
    status = overview.status(EndpointStatus((actor,), 9, 2, 1, (("schema", 3),)), 0.0, State.STOP)
    assert (status.actors, status.received, status.duplicates, status.lost) == ((actor,), 9, 2, 1)
    assert (status.refused, status.state) == ({"schema": 3}, "stop")


@pytest.mark.parametrize("value", [0.0, 2.5])
def test_status_names_observations_that_never_change(overview, core, value):
    """A thousand equal rows are a problem on the screen."""
    columns = {
        "observations": np.full((1001, 4), value, np.float32),
        "actions": np.zeros(1000, np.int64),
        "rewards": np.ones(1000, np.float32),
    }
    lengths, endings = np.array([1000], np.int32), np.array([Ending.TERMINATED], np.uint8)
    core.insert([Parcel(Version(1, 1), lengths, endings, columns)])
    problems = overview.status(EndpointStatus(), 0.0).problems
    assert "nothing can be learned from them" in problems[0]


def test_numbers_of_opponents_are_no_figures_of_a_run_with_a_pool(tmp_path):
    """Their mean says nothing; the games are in the status, and a metric of the world stays."""
    games.load("tictactoe")
    config = a_config(environment="examples/tictactoe_v0", pool=("random=1",), metrics=("moves",))
    core = a_learner(config, tmp_path).core
    named = {"opponent": 0.0, "seat": 1.0, "outcome": 1.0, "moves": 4.0}
    metrics = {name: np.array([value]) for name, value in named.items()}
    core.progress.add(
        Results(np.ones(1), np.ones(1, np.int32), metrics), Version(1, 1), Version(1, 1)
    )
    status = StatusBuilder(config, an_empty_run(tmp_path), core, "cpu").status(
        EndpointStatus(), 0.0
    )
    assert list(status.figures) == ["rollout/moves"]
    assert (status.games.played, status.games.wins) == (1, 1)
