"""Advantages against numbers worked by hand, and against the recursive definition."""

import numpy as np

from farflung.learner.replay.advantages import advantages, backward_sums, returns_to_go


def test_advantages_at_each_ending() -> None:
    """Gamma 1/2, lambda 1/2: of a terminated, a truncated and an open trajectory.

    Terminated after 2 steps: deltas 1 + 2/2 - 4 = -2 and 3 - 2 = 1; so 1, then -2 + 1/4.
    Truncated after 1: 1 + 8/2 - 2 = 3. Open after 2: 0 + 4/2 - 4 = -2, then 2 + 2/2 - 4 = -1;
    so -2, then -1 - 2/4.
    """
    found = advantages(
        rewards=np.array([1, 3, 1, 2, 0], np.float32),
        values=np.array([4, 2, 2, 4, 4], np.float32),
        next_values=np.array([2, 100, 8, 2, 4], np.float32),
        discounts=np.array([0.5, 0, 0.5, 0.5, 0.5], np.float32),
        continues=np.array([True, False, False, True, False]),
        gae_lambda=0.5,
        longest=2,
    )
    np.testing.assert_array_equal(found, np.array([-1.75, 1, 3, -1.5, -2], np.float32))


def test_lambda_of_one_is_the_whole_return_and_of_zero_one_step() -> None:
    """Rewards of 1 without a discount and values of 0: 3, 2, 1; with lambda 0: 1, 1, 1."""
    ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
    continues = np.array([True, True, False])
    for gae_lambda, expected in ((1.0, [3, 2, 1]), (0.0, [1, 1, 1])):
        found = advantages(ones, zeros, zeros, ones, continues, gae_lambda, 3)
        np.testing.assert_array_equal(found, np.array(expected, np.float32))


def test_backward_sums_are_the_recursion() -> None:
    """For trajectories of 1 to 70 steps, of which each has the same bits alone."""
    random = np.random.default_rng(0)
    lengths = random.integers(1, 71, size=200)
    terms, factors = random.normal(size=lengths.sum()), random.uniform(size=lengths.sum())
    ends = lengths.cumsum()
    factors[ends - 1] = 0
    found = backward_sums(terms, factors, 70)
    expected, after = np.empty_like(terms), 0.0
    for row in reversed(range(len(terms))):
        after = expected[row] = terms[row] + factors[row] * after
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    for first, end in zip(ends - lengths, ends, strict=True):
        alone = backward_sums(terms[first:end], factors[first:end], 70)
        assert alone.tobytes() == found[first:end].tobytes()


def test_no_rows_have_no_sums() -> None:
    """Parcels of evaluations bring none."""
    assert len(backward_sums(np.zeros(0), np.zeros(0), 8)) == 0


def test_returns_to_go_at_each_ending() -> None:
    """Gamma 1/2: terminated after 2 steps, truncated after 1, and cut by the batch after 2.

    Terminated: 3, then 1 + 3/2. Truncated before an observation of value 8: 1 + 8/2. The last row
    has a next step that is in no batch yet, of value 4: 0 + 4/2, then 2 + 2/2.
    """
    found = returns_to_go(
        rewards=np.array([1, 3, 1, 2, 0], np.float32),
        discounts=np.array([0.5, 0, 0.5, 0.5, 0.5], np.float32),
        continues=np.array([True, False, False, True, True]),
        next_values=np.array([100, 100, 8, 100, 4], np.float32),
    )
    np.testing.assert_array_equal(found, np.array([2.5, 3, 5, 3, 2], np.float32))
