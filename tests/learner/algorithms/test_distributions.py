"""Log-probabilities and entropies against numbers worked by hand, and against the actors' heads."""

import math

import numpy as np
import pytest
import torch

from farflung.common.heads.discrete import log_probabilities
from farflung.learner.algorithms.distributions import Categorical, Gaussian, MultiCategorical


def test_categorical_by_hand():
    """Logits of log 1, log 1, log 2: probabilities 1/4, 1/4, 1/2, an entropy of 1.5 log 2."""
    found = Categorical(torch.tensor([[0, 0, math.log(2)]] * 3))
    logs = found.log_probabilities(torch.tensor([0, 1, 2]))
    assert logs.exp().tolist() == pytest.approx([0.25, 0.25, 0.5])
    assert found.entropies().tolist() == pytest.approx([1.5 * math.log(2)] * 3)


def test_categorical_leaves_out_the_lowest_logits():
    """An action with the lowest float as its logit is impossible, and the entropy is finite."""
    lowest = torch.finfo(torch.float32).min
    found = Categorical(torch.tensor([[0, 0, lowest]]))
    assert found.entropies().tolist() == pytest.approx([math.log(2)])


def test_choices_at_once_add_up():
    """Two choices, of 2 and 4 that are alike: log 2 + log 4 for each action."""
    found = MultiCategorical(torch.zeros(2, 6), (2, 4))
    actions = torch.tensor([[0, 3], [1, 2]])
    assert found.log_probabilities(actions).tolist() == pytest.approx([-math.log(8)] * 2)
    assert found.entropies().tolist() == pytest.approx([math.log(8)] * 2)


def test_gaussian_by_hand():
    """Two numbers with deviations 1 and e; the second one is a deviation away from its mean."""
    found = Gaussian(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 1.0]]))
    at = found.log_probabilities(torch.tensor([[1.0, 2.0 + math.e]]))
    assert at.tolist() == pytest.approx([-math.log(2 * math.pi) - 0.5 - 1])
    assert found.entropies().tolist() == pytest.approx([1 + math.log(2 * math.pi) + 1])


def test_losses_and_actors_agree():
    """The log-probabilities that an actor records are those of the loss, within rounding."""
    random = np.random.default_rng(0)
    logits = random.normal(scale=5, size=(50, 7)).astype(np.float32)
    actions = random.integers(7, size=50)
    found = Categorical(torch.from_numpy(logits)).log_probabilities(torch.from_numpy(actions))
    np.testing.assert_allclose(found.numpy(), log_probabilities(logits, actions), atol=1e-5)
