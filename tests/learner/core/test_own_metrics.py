"""Metrics of one's own: worked by hand."""

import logging
import math

import pytest
import torch

from farflung.common.data.fields import MAGNITUDE
from farflung.common.data.statistics import Figure, summary
from farflung.common.process.errors import ConfigurationError
from farflung.learner.core.curves import LETTERS, published, require_name
from farflung.learner.core.own_metrics import LATEST, NAMES, Metrics, Updates


def test_figure_has_mean_spread_and_count() -> None:
    """2, 4, 9 have the mean 5; squares of 9 + 1 + 16 over 2 are a variance of 13."""
    assert summary([2.0, 4.0, 9.0]) == Figure(5.0, math.sqrt(13.0), 3)
    assert summary([7.0]) == Figure(7.0, None, 1)


def test_spread_survives_a_large_mean() -> None:
    """Mean of squares less square of the mean would be 0 or negative here."""
    assert summary([1e15 - 1, 1e15, 1e15 - 2]) == Figure(1e15 - 1, 1.0, 3)


def test_metric_counts_its_latest_values_one_by_one() -> None:
    """A batch of one value and a batch of three are four values, not two means."""
    metrics = Metrics()
    metrics.add("success_rate", [1.0])
    metrics.add("success_rate", [0.0, 0.0, 0.0])
    assert metrics.figure("success_rate") == Figure(0.25, 0.5, 4)
    metrics.add("success_rate", [1.0] * LATEST)
    assert metrics.figure("success_rate") == Figure(1.0, 0.0, LATEST)
    assert metrics.figure("other") is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2 * MAGNITUDE])
def test_value_without_measure_is_left_out_and_said_once(
    value: float, caplog: pytest.LogCaptureFixture
) -> None:
    """One such value would hide the mean of the others."""
    metrics = Metrics()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            metrics.add("grip", [1.0, value, 3.0])
    assert metrics.figures["grip"].mean == 2.0
    assert len(caplog.records) == 1
    assert "grip" in caplog.text


def test_metric_with_no_finite_value_has_no_figure() -> None:
    """It is not 0."""
    metrics = Metrics()
    metrics.add("grip", [math.nan])
    assert metrics.figures == {}
    assert metrics.figure("grip") is None


def test_number_of_metrics_is_bounded() -> None:
    """A name made in a loop ends in a sentence, not in memory."""
    metrics = Metrics()
    for number in range(NAMES):
        metrics.add(f"m{number}", [1.0])
    metrics.add("m0", [1.0])
    with pytest.raises(ConfigurationError, match="256 already"):
        metrics.add("one more", [1.0])


@pytest.mark.parametrize(
    "name", ["", "a b", "-a", "a//b", "/a", "a/", "ä", "a\n", "x" * (LETTERS + 1), "\x1b[2J"]
)
def test_name_that_is_no_curve_is_refused(name: str) -> None:
    """Names reach terminals, files and other programs."""
    with pytest.raises(ConfigurationError, match="a name has at most 128 letters"):
        require_name(name)


@pytest.mark.parametrize("name", ["rollout/x", "eval/x", "time/x"])
def test_name_of_the_learners_own_is_refused(name: str) -> None:
    """Two meanings in one curve would be neither."""
    with pytest.raises(ConfigurationError, match="the learner's own"):
        require_name(name)


def test_names_without_a_slash_stand_under_train() -> None:
    """As those of the algorithm; epsilon has the name of Stable-Baselines3."""
    require_name("grip.left-1/force")
    assert [published(name) for name in ("loss", "arm/force", "epsilon")] == [
        "train/loss",
        "arm/force",
        "rollout/exploration_rate",
    ]


def test_updates_have_the_mean_of_the_latest() -> None:
    """The oldest is forgotten; a metric that the newest lacks is not shown."""
    updates = Updates()
    assert (updates.means, dict(updates.newest)) == ({}, {})
    updates.add({"loss": torch.tensor(1e6), "first": torch.tensor(1.0)})
    for value in range(LATEST):
        updates.add({"loss": torch.tensor(float(value)), "late": torch.tensor([3.0])})
    assert updates.means == {"loss": (LATEST - 1) / 2, "late": 3.0}


def test_update_that_was_skipped_does_not_hide_the_others() -> None:
    """A loss that is not finite is left out of the mean; if all are, the mean says so."""
    updates = Updates()
    updates.add({"loss": torch.tensor(math.nan)})
    assert math.isnan(updates.means["loss"])
    updates.add({"loss": torch.tensor(2.0)})
    updates.add({"loss": torch.tensor(math.inf)})
    assert updates.means == {"loss": 2.0}
