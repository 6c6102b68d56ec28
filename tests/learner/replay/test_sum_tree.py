"""The sum tree, against a slow model that adds all masses up."""

from bisect import bisect_right
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farflung.learner.replay.sum_tree import FAN, MANY, TOP, SumTree

SIZES = (1, 2, 17, TOP, TOP + 1, FAN * TOP, FAN * TOP + 3)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.slow
def test_tree_finds_the_slot_under_each_share(size: int) -> None:
    """Small whole numbers have exact sums: each share leads to the slot of the slow model."""
    generator, tree = np.random.default_rng(size), SumTree(size)
    masses = np.zeros(size, np.int64)
    for count in (size, 1, 7, 2 * MANY):
        slots = generator.integers(0, size, count)
        new = generator.integers(0, 4, count)
        masses[slots] = new  # of a slot that is named twice the last one counts, in both
        tree.put(slots, new)
        masses[size // 2] = 5
        tree.put(np.array([size // 2]), 5.0)
        np.testing.assert_array_equal(tree.masses(np.arange(size)), masses)
        shares = generator.integers(0, 2**20, 50) / 2**20
        found, total = tree.find(shares)
        sums = list(accumulate(masses.tolist()))
        assert total == sums[-1]
        expected = [bisect_right(sums, Fraction(share) * sums[-1]) for share in shares.tolist()]
        assert found.tolist() == expected


@given(
    masses=st.lists(
        st.sampled_from([0.0, 1e-30, 1e-7, 0.1, 1 / 3, 1.0, 1e9, 1e30]), min_size=1, max_size=40
    ),
    last=st.integers(0, TOP + 1),
)
@settings(max_examples=30, deadline=None)
@pytest.mark.slow
def test_tree_never_finds_a_slot_without_mass(masses: list[float], last: int) -> None:
    """Masses of all sizes, and shares up to the last one below 1, lead to slots that have mass."""
    tree = SumTree(TOP + 41)
    tree.put(np.arange(last, last + len(masses)) % (TOP + 41), np.array(masses))
    tree.put(np.array([3]), 0.1)
    shares = np.array([0.0, 1e-300, 0.25, 0.5, 1 - 2**-30, np.nextafter(1, 0)])
    found, _ = tree.find(shares)
    assert (tree.masses(found) > 0).all()


def test_sums_follow_from_the_masses_alone() -> None:
    """The same masses have the same bits of sums, in any order in which they were put."""
    generator = np.random.default_rng(0)
    masses, order = generator.random(FAN * TOP), generator.permutation(FAN * TOP)
    whole, parts = SumTree(FAN * TOP), SumTree(FAN * TOP)
    whole.put(np.arange(FAN * TOP), masses)
    for slots in np.array_split(order, 100):
        parts.put(slots, 1.0)
        parts.put(slots, masses[slots])
    shares = generator.random(100)
    (one, total), (other, same) = whole.find(shares), parts.find(shares)
    assert total == same
    np.testing.assert_array_equal(one, other)


def test_share_of_one_is_the_last_slot_with_mass() -> None:
    """A share of almost 1 is rounded to 1 when a large batch adds its place to it."""
    tree = SumTree(FAN * TOP + 3)
    tree.put(np.array([7, 1000]), np.array([1.0, 2.0]))
    assert tree.find(np.array([1.0]))[0].tolist() == [1000]
