"""The store: its size in memory, the number of its frames, and its rings."""

import numpy as np
import psutil
import pytest
from support.replays import make_spec

from farflung.common.data.spec import Space
from farflung.common.process.errors import ConfigurationError
from farflung.learner.replay.store import Ring, Store, frames_for
from farflung.learner.replay.transitions import Transitions


def test_store_refuses_at_the_start_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store larger than the free memory names its size and the flag that makes it smaller."""
    images = make_spec(32, 4, observation={"": Space("box", "uint8", (84, 84))})
    layout = Transitions(images, n_step=1, gamma=0.5).layout
    monkeypatch.setattr(
        psutil, "virtual_memory", lambda: type("Memory", (), {"available": 2**30})()
    )
    expected = (
        r"1,000,000 rows x 32 bytes \+ 1,250,000 frames x 7,056 bytes = 8\.24 GiB, "
        r"but 1\.00 GiB are free: lower --capacity"
    )
    with pytest.raises(ConfigurationError, match=expected):
        Store(images, layout, 1_000_000, 1_000_000)
    assert (
        Store(images, layout, 1000, 1000).memory
        == "1,000 rows x 32 bytes + 1,250 frames x 7,056 bytes = 0.01 GiB"
    )


@pytest.mark.parametrize(
    ("steps", "stack", "horizon", "expected"),
    [
        (100, 1, 1, 200),
        (100, 4, 1, 500),
        (1000, 1, 32, 1063),
        (1000, 4, 32, 1250),
        (1, 4, 50, 54),
    ],
)
def test_store_begins_with_frames_for_long_trajectories(
    steps: int, stack: int, horizon: int, expected: int
) -> None:
    """Two trajectories a window have room; a window of one step holds one trajectory.

    There is always room for one whole trajectory.
    """
    assert frames_for(steps, stack, horizon) == expected


@pytest.mark.parametrize("capacity", [1, 2, 7, 13])
def test_ring_keeps_the_numbers_of_entries_over_many_laps(capacity: int) -> None:
    """The last entries keep their numbers, also when a block is longer than the ring."""
    ring = Ring(capacity, np.dtype("int64"))
    generator = np.random.default_rng(capacity)
    for size in generator.integers(0, 3 * capacity, 60).tolist():
        ring.append(np.arange(ring.count, ring.count + size))
        there = np.arange(ring.oldest, ring.count)
        np.testing.assert_array_equal(ring.take(there), there)
        assert len(there) == min(capacity, ring.count)
        assert all(ring[number] == number for number in there.tolist())


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_ring_of_records_keeps_their_fields(dtype: str) -> None:
    """Over a lap, with padding between fields, and where the values have to be converted."""
    layout = np.dtype([("a", "i1"), ("b", "f4", (2,))], align=True)
    ring = Ring(5, layout)
    values = np.zeros(8, np.dtype([("a", "i1"), ("b", dtype, (2,))], align=True))
    values["a"], values["b"] = np.arange(8), np.arange(16).reshape(8, 2)
    for piece in (values[:3], values[3:]):
        ring.append(piece)
    found = ring.take(np.arange(3, 8))
    assert found.dtype == layout
    assert found["a"].tolist() == [3, 4, 5, 6, 7]
    assert found["b"].tolist() == values["b"][3:].tolist()


def test_ring_takes_into_an_array_that_is_handed_in() -> None:
    """The same entries over a lap, and a number that was never stored is an error there too."""
    ring = Ring(5, np.dtype("int64"), (2,))
    ring.append(np.arange(16).reshape(8, 2))
    numbers, out = np.array([[3, 7], [5, 4]]), np.empty((2, 2, 2), np.int64)
    assert ring.take(numbers, out) is out
    np.testing.assert_array_equal(out, ring.take(numbers))
    np.testing.assert_array_equal(out[:, :, 0], 2 * numbers)
    for wrong in (-3, 13):
        with pytest.raises(IndexError):
            ring.take(np.array([wrong, 5]), np.empty((2, 2), np.int64))


@pytest.mark.parametrize("capacity", [1, 2, 7, 13])
def test_ring_that_grows_keeps_its_entries(capacity: int) -> None:
    """Entries keep their numbers wherever the ring stands in its lap, and later laps too."""
    generator = np.random.default_rng(capacity)
    for _ in range(30):
        ring, oldest = Ring(capacity, np.dtype("int64")), 0
        for _ in range(8):
            size = int(generator.integers(0, 2 * ring.capacity))
            ring.append(np.arange(ring.count, ring.count + size))
            oldest = max(oldest, ring.count - ring.capacity)
            if generator.random() < 0.5:
                ring.grow(ring.capacity + int(generator.integers(1, 9)))
            assert ring.oldest == oldest
            there = np.arange(ring.oldest, ring.count)
            np.testing.assert_array_equal(ring.take(there), there)


def test_ring_returns_copies() -> None:
    """Entries that were taken do not change when the ring overwrites them."""
    ring = Ring(2, np.dtype("float32"), (3,))
    ring.append(np.ones((2, 3), np.float32))
    taken = ring.take(np.array([[0, 1], [1, 0]]))
    ring.append(np.zeros((2, 3), np.float32))
    assert taken.shape == (2, 2, 3)
    assert (taken == 1).all()
