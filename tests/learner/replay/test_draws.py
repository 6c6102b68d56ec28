"""Random numbers for sampling."""

import numpy as np

from farflung.learner.replay.draws import BLOCK, BatchRandom


def test_numbers_follow_from_seed_and_update() -> None:
    """Any order of asking gives the same numbers for an update, over the borders of blocks too."""
    updates = [0, BLOCK - 1, BLOCK, 5 * BLOCK + 3, 2**40]
    forward, backward = BatchRandom(7, 4), BatchRandom(7, 4)
    first = {update: forward.of(update).copy() for update in updates}
    for update in reversed(updates):
        np.testing.assert_array_equal(backward.of(update), first[update])


def test_other_updates_and_seeds_differ() -> None:
    """No two updates and no two seeds share numbers."""
    numbers = [
        BatchRandom(seed, 8).of(update).tolist()
        for seed in (1, 2, 2**63 - 1)
        for update in range(3 * BLOCK)
    ]
    assert len({value for row in numbers for value in row}) == 8 * len(numbers)


def test_numbers_are_uniform() -> None:
    """They lie in [0, 1) and fill ten bins evenly."""
    draws = BatchRandom(3, 100)
    numbers = np.concatenate([draws.of(update) for update in range(200)])
    counts, _ = np.histogram(numbers, bins=10, range=(0, 1))
    assert counts.sum() == 20_000
    assert abs(counts - 2000).max() < 200
