"""Distributions of returns, against numbers worked by hand."""

import math

import pytest
import torch

from farflung.learner.algorithms.value_distributions import (
    Categorical,
    Quantiles,
    munchausen,
    projected,
    quantile_huber,
    soft_value,
)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([0.0, 1.0, 2.0], [0.2, 0.3, 0.5]),  # they are the returns themselves
        ([0.5, 1.0, 3.0], [0.1, 0.4, 0.5]),  # half way between two, and beyond the highest
        ([-7.0, 1.75, 2.0], [0.2, 0.075, 0.725]),  # below the lowest; a quarter to the farther one
        ([1.25, 1.25, 1.25], [0.0, 0.75, 0.25]),  # the return of a last step
    ],
)
def test_projection_shares_each_probability_between_neighbours(
    places: list[float], expected: list[float]
) -> None:
    """Three returns 0, 1 and 2 have the probabilities of others in between and beyond."""
    found = projected(torch.tensor([[0.2, 0.3, 0.5]]), torch.tensor([places]), 0.0, 2.0)
    torch.testing.assert_close(found, torch.tensor([expected]))


def test_projection_keeps_mass_and_mean_within_the_limits() -> None:
    """Random distributions of 51 returns keep both."""
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.rand((20, 51), generator=generator).softmax(dim=1)
    places = torch.rand((20, 51), generator=generator) * 20 - 10
    found = projected(probabilities, places, -10.0, 10.0)
    torch.testing.assert_close(found.sum(1), torch.ones(20))
    means = found @ torch.linspace(-10, 10, 51)
    torch.testing.assert_close(means, (probabilities * places).sum(1), atol=1e-4, rtol=0)


def test_categorical_loss_is_the_cross_entropy_with_the_projected_target() -> None:
    """The next return is surely 2: the target of 0.5 + 0.25 * 2 is the return 1."""
    form = Categorical(3, 0.0, 2.0)
    sure = torch.tensor([[-100.0, -100.0, 100.0]])
    outputs = torch.tensor([[1.0, 2.0, 3.0]])
    loss = form.losses(outputs, sure, torch.tensor([0.5]), torch.tensor([0.25]))
    expected = -(2 - math.log(math.e + math.e**2 + math.e**3))
    assert loss.tolist() == pytest.approx([expected])
    assert form.expected(sure).tolist() == pytest.approx([2.0])
    assert form.expected(torch.zeros(1, 3)).tolist() == pytest.approx([1.0])


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        # Levels 0.25 and 0.75, quantiles 0 and 2.
        ([1.0], 0.25 * 0.5 + 0.25 * 0.5),  # one above, one below: errors 1 and -1
        ([3.0], 0.25 * 2.5 + 0.75 * 0.5),  # both above: errors 3, in the linear part, and 1
        ([-1.0], 0.75 * 0.5 + 0.25 * 2.5),
        ([1.0, 3.0], (0.25 + 1.0) / 2),  # the mean over targets
    ],
)
def test_quantile_huber_loss_by_hand(targets: list[float], expected: float) -> None:
    """An error above a quantile counts by its level, one below by the rest."""
    loss = quantile_huber(torch.tensor([[0.0, 2.0]]), torch.tensor([targets]))
    assert loss.tolist() == pytest.approx([expected])


def test_quantiles_of_a_sample_minimise_the_loss() -> None:
    """Gradient steps lead five quantiles to those of the sample."""
    sample = torch.linspace(0, 100, 1001)[None]
    quantiles = torch.zeros(1, 5, requires_grad=True)
    for _ in range(400):
        (gradient,) = torch.autograd.grad(quantile_huber(quantiles, sample).sum(), quantiles)
        with torch.no_grad():
            quantiles -= 2 * gradient
    assert quantiles[0].tolist() == pytest.approx([10, 30, 50, 70, 90], abs=2)
    assert Quantiles(5).expected(quantiles).item() == pytest.approx(50, abs=1)


def test_soft_value_is_the_maximum_with_entropy() -> None:
    """Two equal values have the logarithm of 2 more; without temperature it is the maximum."""
    values = torch.tensor([[0.0, 0.0], [3.0, 1.0]])
    assert soft_value(values, 1.0)[0].item() == pytest.approx(math.log(2))
    assert soft_value(values, 0.01).tolist() == pytest.approx([0.01 * math.log(2), 3.0])


def test_munchausen_adds_a_share_of_the_log_probability() -> None:
    """Of two equal values each has half; an action that is never taken counts as the least."""
    values = torch.tensor([[0.0, 0.0], [0.0, 100.0], [0.0, 100.0]])
    found = munchausen(values, torch.tensor([1, 0, 1]), 0.5, 0.9, -1.0)
    assert found.tolist() == pytest.approx([0.9 * 0.5 * math.log(0.5), -0.9, 0.0])
