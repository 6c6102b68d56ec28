"""Uniform sampling, and the random numbers behind it."""

import numpy as np

from farflung.learner.replay.sampling import BLOCK, BatchRandom, Uniform


def test_uniform_sampler_draws_every_row_equally_often() -> None:
    """Over many updates each of 97 rows is drawn about equally often."""
    sampler = Uniform(64, seed=0)
    drawn = np.concatenate([sampler.sample(update, range(5, 102))[0] for update in range(500)])
    numbers, counts = np.unique(drawn, return_counts=True)
    assert numbers.tolist() == list(range(5, 102))
    expected = len(drawn) / 97
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert chi_squared < 96 + 4 * (2 * 96) ** 0.5  # four standard deviations


def test_uniform_rows_have_no_weights() -> None:
    """All rows count the same, and the sampler has no state."""
    sampler = Uniform(4, seed=0)
    assert sampler.sample(0, range(9))[1] is None
    assert sampler.state(range(9)) == b""


def test_batch_random_follows_from_seed_and_update() -> None:
    """An update has the same numbers in any order of calls, across the borders of blocks too."""
    updates = [0, BLOCK - 1, BLOCK, 5 * BLOCK + 3, 2**40]
    forward, backward = BatchRandom(7, 4), BatchRandom(7, 4)
    first = {update: forward.of(update).copy() for update in updates}
    for update in reversed(updates):
        np.testing.assert_array_equal(backward.of(update), first[update])


def test_batch_random_repeats_no_numbers_in_other_updates_and_seeds() -> None:
    """Different updates and different seeds draw different numbers."""
    numbers = [
        BatchRandom(seed, 8).of(update).tolist()
        for seed in (1, 2, 2**63 - 1)
        for update in range(3 * BLOCK)
    ]
    assert len({value for row in numbers for value in row}) == 8 * len(numbers)


def test_batch_random_is_uniform() -> None:
    """Numbers lie in [0, 1) and fill ten bins evenly."""
    random = BatchRandom(3, 100)
    numbers = np.concatenate([random.of(update) for update in range(200)])
    counts, _ = np.histogram(numbers, bins=10, range=(0, 1))
    assert counts.sum() == 20_000
    assert abs(counts - 2000).max() < 200
