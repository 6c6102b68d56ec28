"""The builder of a status: from settings, core, network and clock."""

import numpy as np
import pytest
import torch
from support.learners import a_config, a_learner, an_empty_run

from farflung.common.data.parcel import Ending, Parcel, Results
from farflung.common.data.version import Version
from farflung.common.protocol.messages import State
from farflung.learner.core.pacing import Cause
from farflung.learner.core.progress import EvaluationResult
from farflung.learner.observe.endpoint_status import EndpointStatus
from farflung.learner.observe.status import ActorStatus, WaitingStatus
from farflung.learner.observe.status_builder import PROBLEMS, StatusBuilder


@pytest.fixture
def core(tmp_path):
    """Of a small run in turns."""
    return a_learner(a_config(steps=100, until="steps > 5"), tmp_path).core


@pytest.fixture
def overview(tmp_path, core):
    """Of the same run."""
    return StatusBuilder(
        a_config(steps=100, until="steps > 5"), an_empty_run(tmp_path), core, "cpu"
    )


def evaluated(mean, version):
    return EvaluationResult(
        10, Version(1, version), Results(np.array([mean]), np.array([3], np.int32))
    )


def test_a_fresh_run_is_known_by_its_settings(overview, tmp_path):
    """Settings are there; figures that are not known yet are None, not 0."""
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


def test_metrics_are_those_of_algorithm_and_exploration(overview, core):
    """The builder knows none of them by name."""
    core.metrics = {"anything": torch.tensor(2.0)}
    core.state.steps = core.spec.exploration.steps
    status = overview.status(EndpointStatus(), 0.0)
    assert status.metrics == {"anything": 2.0, "epsilon": pytest.approx(0.05)}


def test_the_wait_that_is_told_is_the_most_frequent_one_of_the_last_seconds(overview, core):
    """A single look would show chance: the side that is held back changes many times a second."""
    pacing = core.pacing
    # After a warm-up of 16 rows, in batches of 8, with a tolerance of 32.
    rows = {"updates": 16, "neither": 24, "collection": 48}

    def look(times, side):
        for _ in range(times):
            pacing.rows = rows[side]
            wait = overview.status(EndpointStatus(), 0.0).waiting
        return wait

    look(5, "updates")
    look(13, "collection")
    wait = look(3, "neither")  # the first of the 21 looks is forgotten
    assert wait == WaitingStatus(Cause.UPDATES, 0, 0.65)
    assert look(16, "updates") == WaitingStatus(Cause.WARMUP, 8, 0.8)
    assert look(20, "neither") == WaitingStatus()


def test_rates_come_from_the_clock(overview, core):
    """40 steps and 10 updates in 2 s."""
    overview.status(EndpointStatus(), 0.0)
    core.state.steps, core.state.updates = 40, 10
    status = overview.status(EndpointStatus(), 2.0)
    assert (status.steps_per_second, status.updates_per_second) == (20.0, 5.0)


def test_standing_still_is_timed(overview, core):
    """Since when neither steps nor updates grew."""
    overview.status(EndpointStatus(), 1.0)
    assert overview.status(EndpointStatus(), 4.0).idle_seconds == 3.0
    core.state.updates = 1
    assert overview.status(EndpointStatus(), 5.0).idle_seconds == 0.0


def test_the_best_evaluation_stays(overview, core):
    """The newest is shown with the best so far."""
    for mean, version in ((5.0, 1), (9.0, 2), (7.0, 3)):
        core.progress.evaluation = evaluated(mean, version)
        status = overview.status(EndpointStatus(), 0.0)
    assert (status.evaluation.mean, status.evaluation.version, status.evaluation.best) == (
        7.0,
        3,
        9.0,
    )


def test_suspicious_observations_are_reported(overview, core):
    """The sentence stands first among the problems."""
    core.progress.constant_observations.verdict = "the observations are all zero"
    overview.problems.append("local-0 ended")
    status = overview.status(EndpointStatus(problems=("box-1: environment: no",)), 0.0)
    assert status.problems == (
        "the observations are all zero",
        "box-1: environment: no",
        "local-0 ended",
    )


def test_steps_that_were_not_made_are_counted_and_weights_that_were_given_up_named(overview, core):
    """The guard's books are shown with the updates."""
    core.guard.skipped = 12
    core.guard.sentence = "the weights in head.bias were not finite"
    status = overview.status(EndpointStatus(), 0.0)
    assert (status.skipped, status.problems) == (12, ("the weights in head.bias were not finite",))


def test_old_problems_make_room(overview):
    """However often children die, the list stays short."""
    overview.problems.extend(str(n) for n in range(100))
    assert overview.status(EndpointStatus(), 0.0).problems == tuple(
        str(n) for n in range(100 - PROBLEMS, 100)
    )


def test_the_networks_books_are_passed_on(overview):
    """Actors, received, duplicates, lost and refused by reason."""
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
