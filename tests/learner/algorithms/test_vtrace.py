"""V-trace against its definition, term by term, in float64."""

import math

import pytest
import torch

from farflung.learner.algorithms.vtrace import vtrace


def recursive(ratios, rewards, discounts, values, bootstrap, rho_bar, c_bar, trace_lambda):
    """The definition for one trajectory: v(s) = V(s) + sum over t of products of c and delta(t)."""
    steps = len(rewards)
    following = [*values[1:], bootstrap]
    rhos = [min(rho_bar, ratio) for ratio in ratios]
    cs = [trace_lambda * min(c_bar, ratio) for ratio in ratios]
    deltas = [
        rhos[t] * (rewards[t] + discounts[t] * following[t] - values[t]) for t in range(steps)
    ]
    targets = []
    for s in range(steps):
        total, weight = values[s], 1.0
        for t in range(s, steps):
            total += weight * deltas[t]
            weight *= discounts[t] * cs[t]
        targets.append(total)
    next_targets = [*targets[1:], bootstrap]
    advantages = [
        rhos[t] * (rewards[t] + discounts[t] * next_targets[t] - values[t]) for t in range(steps)
    ]
    return targets, advantages


@pytest.mark.parametrize(
    ("rho_bar", "c_bar", "trace_lambda"), [(1, 1, 1), (2, 1, 0.9), (math.inf, 0.5, 1)]
)
def test_vtrace_is_its_definition(rho_bar, c_bar, trace_lambda):
    """For 40 trajectories of 1 to 20 steps, every third of which terminates."""
    random = torch.Generator().manual_seed(0)
    columns, expected_values, expected_advantages = [], [], []
    for number in range(40):
        steps = int(torch.randint(1, 21, (), generator=random))
        logs, rewards, values = torch.randn(3, steps, generator=random, dtype=torch.float64)
        bootstrap = torch.randn(1, generator=random, dtype=torch.float64)
        discounts = torch.full((steps,), 0.9, dtype=torch.float64)
        if number % 3 == 0:
            discounts[-1] = 0
        continues = torch.arange(steps) < steps - 1
        columns.append(
            (logs, rewards, discounts, values, torch.cat([values[1:], bootstrap]), continues)
        )
        plain = [each.tolist() for each in (logs.exp(), rewards, discounts, values)]
        targets, advantages = recursive(*plain, float(bootstrap), rho_bar, c_bar, trace_lambda)
        expected_values += targets
        expected_advantages += advantages
    together = map(torch.cat, zip(*columns, strict=True))
    found = vtrace(*together, longest=20, rho_bar=rho_bar, c_bar=c_bar, trace_lambda=trace_lambda)
    torch.testing.assert_close(found.values, torch.tensor(expected_values, dtype=torch.float64))
    torch.testing.assert_close(
        found.advantages, torch.tensor(expected_advantages, dtype=torch.float64)
    )


def test_vtrace_of_two_steps_by_hand():
    """Ratios of 1/2 and 4, gamma 1/2, values 1, 2, and 4 of the bootstrap observation.

    Deltas: 1/2 (1 + 2/2 - 1) = 1/2 and 1 (1 + 4/2 - 2) = 1. So v = 2 + 1 = 3 at the second step,
    and 1 + 1/2 + 1/2 * 1/2 * 1 = 1.75 at the first one. Advantages: 1/2 (1 + 3/2 - 1) and 1.
    """
    found = vtrace(
        torch.tensor([math.log(0.5), math.log(4)], dtype=torch.float64),
        torch.ones(2, dtype=torch.float64),
        torch.full((2,), 0.5, dtype=torch.float64),
        torch.tensor([1.0, 2.0], dtype=torch.float64),
        torch.tensor([2.0, 4.0], dtype=torch.float64),
        torch.tensor([True, False]),
        longest=2,
    )
    assert found.values.tolist() == pytest.approx([1.75, 3])
    assert found.advantages.tolist() == pytest.approx([0.75, 1])


def test_on_policy_vtrace_is_the_n_step_return():
    """Ratios of 1 and rewards of 1 without a discount: 3, 2, 1 steps and the bootstrap's 10."""
    ones = torch.ones(3)
    found = vtrace(
        torch.zeros(3),
        ones,
        ones,
        torch.tensor([5.0, 6.0, 7.0]),
        torch.tensor([6.0, 7.0, 10.0]),
        torch.tensor([True, True, False]),
        longest=3,
    )
    assert found.values.tolist() == [13, 12, 11]
