"""The ring keeps its newest entries under their numbers."""

import numpy as np
import pytest

from farflung.learner.replay.ring import Ring


@pytest.mark.parametrize("capacity", [1, 2, 7, 13])
def test_ring_keeps_the_numbers_of_entries_over_many_laps(capacity: int) -> None:
    """The last entries stay under their numbers, blocks that are longer than the ring included."""
    ring = Ring(capacity, np.dtype("int64"))
    generator = np.random.default_rng(capacity)
    for size in generator.integers(0, 3 * capacity, 60).tolist():
        ring.append(np.arange(ring.count, ring.count + size))
        there = np.arange(ring.oldest, ring.count)
        np.testing.assert_array_equal(ring.take(there), there)
        assert len(there) == min(capacity, ring.count)
        assert all(ring[number] == number for number in there.tolist())


def test_ring_returns_copies() -> None:
    """Entries that were taken do not change when the ring overwrites them."""
    ring = Ring(2, np.dtype("float32"), (3,))
    ring.append(np.ones((2, 3), np.float32))
    taken = ring.take(np.array([[0, 1], [1, 0]]))
    ring.append(np.zeros((2, 3), np.float32))
    assert taken.shape == (2, 2, 3)
    assert (taken == 1).all()
