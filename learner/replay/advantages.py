"""Generalised advantage estimation (Schulman et al., 2016) over trajectories of any lengths."""

import numpy as np


def advantages(
    rewards: np.ndarray,  # [R] float32, trajectories one after the other
    values: np.ndarray,  # [R] float32, of the observations before the steps
    next_values: np.ndarray,  # [R] float32, of the observations after them
    discounts: np.ndarray,  # [R] float32: gamma, and 0 where the episode terminated
    continues: np.ndarray,  # [R] bool: the next row is the next step of the same trajectory
    gae_lambda: float,
    longest: int,  # steps of the longest trajectory that there may be
) -> np.ndarray:
    """Return the advantage of each step, [R] float32.

    A(t) = delta(t) + gamma lambda A(t + 1), with delta(t) = r(t) + gamma V(t + 1) - V(t). The last
    step of a trajectory has delta(t): after OPEN and TRUNCATED its next observation has a value.
    """
    deltas = rewards + discounts * next_values.astype(np.float64) - values
    found = backward_sums(deltas, np.where(continues, discounts * gae_lambda, 0.0), longest)
    return found.astype(np.float32)


def returns_to_go(
    rewards: np.ndarray,  # [R] float32, trajectories one after the other
    discounts: np.ndarray,  # [R] float32: gamma, and 0 where the episode terminated
    continues: np.ndarray,  # [R] bool: the next row is the next step of the same trajectory
    next_values: np.ndarray,  # [R] float32, of the observations after the steps
) -> np.ndarray:
    """Return the discounted sum of the rewards from each step on, [R] float32.

    G(t) = r(t) + gamma G(t + 1). Where a trajectory is cut, and after the last row, the value of
    the next observation stands for what would have followed: G(t) = r(t) + gamma V(t + 1).
    """
    within = continues.copy()
    within[-1:] = False
    ends = rewards + np.where(within, 0.0, discounts * next_values.astype(np.float64))
    found = backward_sums(ends, np.where(within, discounts, np.float64(0)), len(rewards))
    return found.astype(np.float32)


def backward_sums(
    terms: np.ndarray,  # [R] float64
    factors: np.ndarray,  # [R] float64, 0 at the last step of each trajectory
    longest: int,
) -> np.ndarray:
    """Return x(t) = term(t) + factor(t) x(t + 1) for all rows, [R] float64.

    After each pass a row has the terms of twice as many steps, so a logarithm of the longest
    trajectory's length is enough. Passes do not depend on the other rows: the same trajectory has
    the same bits alone and among others.
    """
    sums, factors, span = terms.copy(), factors.copy(), 1
    while span < longest and span < len(sums):
        # `where`, not a sum with zero: the sign of a zero must not depend on the row after it.
        linked = factors[:-span] != 0
        np.add(sums[:-span], factors[:-span] * sums[span:], out=sums[:-span], where=linked)
        factors[:-span] *= factors[span:]
        factors[-span:] = 0
        span *= 2
    return sums
