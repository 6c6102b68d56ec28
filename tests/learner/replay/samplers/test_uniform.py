"""Uniform sampling."""

import numpy as np

from farflung.learner.replay.samplers.uniform import Uniform


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
    """A loss takes all rows alike, and there is no state to keep."""
    sampler = Uniform(4, seed=0)
    assert sampler.sample(0, range(9))[1] is None
    assert sampler.state(range(9)) == b""
