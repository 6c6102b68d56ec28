"""Statistics of the parcels that came in."""

from dataclasses import replace

import numpy as np
import pytest
from support.makers import a_parcel, an_evaluation

from farflung.common.data.fields import MAGNITUDE
from farflung.common.data.spec import OBSERVATIONS
from farflung.common.data.statistics import Figure
from farflung.common.data.weights import Version
from farflung.learner.core.progress import ConstantObservations, Progress

NEWEST = Version(1, 5)


def constant(rows, value):
    """Return a parcel with one value in all observations."""
    parcel = a_parcel((rows,))
    parcel.columns[OBSERVATIONS][:] = value
    return parcel


def test_spread_is_the_deviation_of_the_latest_returns():
    """Of 10 and 20 it is 5."""
    progress = Progress()
    assert progress.return_spread is None
    progress.count(a_parcel(results=[(10.0, 1), (20.0, 2)]), 3, NEWEST)
    assert progress.return_spread == 5.0


def test_progress_averages_the_returns_of_finished_episodes():
    """Episodes of 10, 20 and 60 have the mean 30, and the history shows each."""
    progress = Progress()
    assert (progress.return_mean, progress.length_mean) == (None, None)
    progress.count(a_parcel(results=[(10.0, 1), (20.0, 2)]), 3, NEWEST)
    progress.count(a_parcel(results=[(60.0, 6)]), 6, NEWEST)
    assert (progress.return_mean, progress.length_mean, progress.episodes) == (30.0, 3.0, 3)
    assert progress.history.points == (10.0, 20.0, 60.0)


def test_means_of_returns_from_an_old_journal_are_finite():
    """An older learner took returns of 1e308, the sum of which is infinite."""
    progress = Progress()
    for number in range(100):
        progress.count(a_parcel(results=[(1e308, 1)] * 3), number, NEWEST)
    progress.count(an_evaluation([1e308, 1e308]), 1, NEWEST)
    assert progress.return_mean == progress.evaluation.mean == MAGNITUDE
    assert set(progress.history.points) == {MAGNITUDE}


def test_progress_averages_the_latest_hundred_episodes():
    """An early success is forgotten after a hundred episodes."""
    progress = Progress()
    progress.count(a_parcel(results=[(1000.0, 1)] + [(1.0, 1)] * 100), 3, NEWEST)
    assert progress.return_mean == 1.0


def test_progress_measures_policy_lag_in_versions_of_one_epoch():
    """Collected under version 2 while 5 is the newest is a lag of 3; other epochs do not count."""
    progress = Progress()
    progress.count(a_parcel(version=2), 3, NEWEST)
    progress.count(a_parcel(version=90, epoch=2), 6, NEWEST)
    assert (progress.lag.p50, len(progress.lag)) == (3, 1)


def test_progress_keeps_the_newest_evaluation_with_its_steps():
    """Mean, length, version, and the learner's steps when it came in."""
    progress = Progress()
    progress.count(an_evaluation([1.0, 3.0], version=4), 70, NEWEST)
    result = progress.evaluation
    assert (result.mean, result.episodes, result.length_mean) == (2.0, 2, 10.0)
    assert (result.version, result.steps, progress.episodes) == (Version(1, 4), 70, 0)


def test_progress_ignores_an_evaluation_without_episodes():
    """It does not replace the one before."""
    progress = Progress()
    progress.count(an_evaluation([1.0]), 1, NEWEST)
    progress.count(an_evaluation([]), 2, NEWEST)
    assert progress.evaluation.mean == 1.0


@pytest.mark.parametrize(("value", "words"), [(0.0, "all zero"), (1.5, "all the same")])
def test_constant_observations_are_reported_after_a_thousand_rows(value, words):
    """Before that there is no sentence."""
    check = ConstantObservations()
    check.check(constant(999, value))
    assert check.verdict == ""
    check.check(constant(1, value))
    assert check.verdict == (
        f"the observations of the first 1000 steps are {words}: nothing can be learned from them"
    )


def test_constant_observations_are_cleared_by_one_difference():
    """One other frame takes the sentence back, for good."""
    check = ConstantObservations()
    check.check(constant(1000, 0.0))
    check.check(constant(10, 1.0))
    check.check(constant(2000, 0.0))
    assert check.verdict == ""


def test_progress_hands_over_the_best_evaluation_since_the_last_look():
    """The first of equal ones, though a worse one came after it."""
    progress = Progress()
    assert progress.take_candidate() is None
    for version, value in enumerate([3.0, 7.0, 7.0, 5.0], 1):
        progress.count(an_evaluation([value], version=version), 70, NEWEST)
    candidate = progress.take_candidate()
    assert (candidate.version, candidate.mean) == (Version(1, 2), 7.0)
    assert progress.take_candidate() is None
    progress.count(an_evaluation([1.0, 3.0], version=9), 70, NEWEST)
    assert progress.take_candidate().interval.mean == 2.0


def measured(parcel, **metrics):
    """Return a parcel with metrics of its episodes."""
    values = {name: np.array(each) for name, each in metrics.items()}
    return replace(parcel, results=replace(parcel.results, metrics=values))


def test_progress_sums_up_metrics_by_episodes():
    """A success in 1 of 1 and in 1 of 3 are 2 of 4; an episode that reported none counts not."""
    progress = Progress()
    one = a_parcel(results=[(1.0, 1)])
    progress.count(measured(one, is_success=[1.0], grip=[np.nan]), 3, NEWEST)
    more = a_parcel(results=[(1.0, 1)] * 4)
    metrics = {"is_success": [0.0, 1.0, np.nan, 0.0], "grip": [np.nan, 3.0, 5.0, np.nan]}
    progress.count(measured(more, **metrics), 6, NEWEST)
    rate, grip = progress.metrics.figure("success_rate"), progress.metrics.figure("grip")
    assert (rate.mean, rate.count) == (0.5, 4)
    assert rate.spread == pytest.approx((1 / 3) ** 0.5)
    assert (grip.mean, grip.count) == (4.0, 2)
    assert progress.metrics.figure("is_success") is None


def test_metrics_of_an_evaluation_are_its_own():
    """Training and evaluation are two policies: one explores."""
    progress = Progress()
    progress.count(measured(a_parcel(results=[(1.0, 1)]), is_success=[0.0]), 3, NEWEST)
    evaluation = measured(an_evaluation([1.0, 2.0]), is_success=[1.0, 1.0], grip=[np.nan] * 2)
    progress.count(evaluation, 3, NEWEST)
    assert progress.metrics.figures == {"success_rate": Figure(0.0, None, 1)}
    assert progress.evaluation.figures == {"success_rate": Figure(1.0, 0.0, 2)}
