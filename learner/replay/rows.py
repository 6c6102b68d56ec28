"""What a row means: rewards, gamma and endings become returns, discounts and the distance to the bootstrap observation, once and here."""

from functools import lru_cache

import numpy as np

from farflung.common.data.parcel import Ending

TERMINATED = np.uint8(Ending.TERMINATED)  # numpy compares with an enum's member five times slower


def rows(
    lengths: np.ndarray,  # [K] int32, each at least 1
    endings: np.ndarray,  # [K] uint8: Ending
    rewards: np.ndarray,  # [R] float32, R = sum(lengths)
    n: int,
    gamma: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each step of a parcel: its n-step return, the discount of its bootstrap value, and how many steps ahead that value lies.

    A row looks n steps ahead, or to the end of its trajectory where that is nearer: the last n - 1 steps bootstrap early, with the
    shorter discount. Whoever was truncated or cut at the horizon bootstraps from the last observation; after TERMINATED nothing counts.

    Gives `returns [R] float32`, `discounts [R] float32`, `spans [R] int32`.
    """
    if n == 1:
        return rewards, *_one_step(lengths, endings, gamma)
    remaining = np.repeat(lengths.cumsum(), lengths) - np.arange(
        len(rewards)
    )  # [R] steps to the end of the trajectory, itself included
    spans = np.minimum(remaining, n).astype(np.int32)
    powers = _powers(gamma, n)
    returns = rewards.copy()
    for ahead in range(1, n):
        # Not the sum with zero: the sign of a zero must not depend on which parcels are taken together.
        np.add(
            returns[:-ahead],
            powers[ahead] * rewards[ahead:],
            out=returns[:-ahead],
            where=spans[:-ahead] > ahead,
        )
    final = np.repeat(endings == TERMINATED, lengths) & (remaining <= n)
    return returns, np.where(final, np.float32(0), powers[spans]), spans


@lru_cache(8)
def _powers(gamma: float, n: int) -> np.ndarray:
    """What a reward or value is worth so many steps ahead, `[n + 1] float32`."""
    powers: np.ndarray = (gamma ** np.arange(n + 1)).astype(np.float32)
    return powers


def _one_step(
    lengths: np.ndarray, endings: np.ndarray, gamma: float
) -> tuple[np.ndarray, np.ndarray]:
    """Discounts and spans where n is 1, which is the common case and needs no look at the neighbours."""
    last = lengths.cumsum() - 1
    discounts = np.full(last[-1] + 1 if len(last) else 0, gamma, np.float32)
    discounts[last[endings == TERMINATED]] = 0
    return discounts, np.ones(len(discounts), np.int32)
