"""The clipped surrogate, its gradient, and weighted means, against numbers worked by hand."""

import math

import pytest
import torch

from farflung.learner.algorithms.surrogate import (
    clipped_surrogate,
    divergence,
    mean,
    normalised,
)


@pytest.mark.parametrize(
    ("ratio", "advantage", "surrogate", "gradient"),
    [
        (1.1, 1.0, 1.1, 1.1),
        (1.5, 1.0, 1.2, 0.0),  # good, and far enough
        (0.5, 1.0, 0.5, 0.5),  # good, and too rare: it may go back
        (0.5, -1.0, -0.8, 0.0),  # bad, and rare enough
        (1.5, -1.0, -1.5, -1.5),
    ],
)
def test_surrogate_stops_beyond_the_clip(ratio, advantage, surrogate, gradient):
    """Of 0.2; the gradient by the log-probability is ratio x advantage, or nothing."""
    logs = torch.tensor([math.log(ratio)], requires_grad=True)
    found = clipped_surrogate(logs, torch.tensor([advantage]), 0.2)
    found.sum().backward()
    assert found.item() == pytest.approx(surrogate)
    assert logs.grad.item() == pytest.approx(gradient)


def test_divergence_by_hand():
    """A ratio of 2: 1 - log 2; of 1: 0. It is never negative."""
    found = divergence(torch.tensor([math.log(2), 0.0, -3.0]))
    assert found[:2].tolist() == pytest.approx([1 - math.log(2), 0])
    assert found[2] > 0


def test_rows_without_weight_do_not_count():
    """Of 1, 3, 100 the last one is left out: a mean of 2, and normalised -1 and 1."""
    values, weights = torch.tensor([1.0, 3.0, 100.0]), torch.tensor([1.0, 1.0, 0.0])
    assert mean(values, weights) == 2
    assert normalised(values, weights)[:2].tolist() == pytest.approx([-1, 1])
    assert mean(values, torch.zeros(3)) == 0
    assert mean(values[:2]) == 2
