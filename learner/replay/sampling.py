"""The choice of a batch's rows. It depends on nothing but a seed and the number of the update."""

import numpy as np

BLOCK = 32  # updates drawn at once: a new generator costs as much as two batches


class Uniform:
    """Every stored row with the same probability, drawn with replacement."""

    def __init__(self, batch_size: int, seed: int) -> None:
        self._random = BatchRandom(seed, batch_size)

    def add(self, first: int, rows: np.ndarray) -> None:
        """Do nothing: rows have no priorities."""

    def sample(self, update: int, stored: range) -> tuple[np.ndarray, None]:
        """Return the numbers `[B] int64` of a batch's rows, without weights."""
        return (self._random.of(update) * len(stored)).astype(np.int64) + stored.start, None

    def prioritise(self, numbers: np.ndarray, priorities: np.ndarray) -> None:
        """Do nothing: rows have no priorities."""

    def state(self, stored: range) -> bytes:
        """Return nothing: batches follow from the rows, the seed and the number of the update."""
        return b""

    def restore(self, state: bytes, stored: range) -> None:
        """Do nothing: there is no state."""


class BatchRandom:
    """Uniform numbers in [0, 1) for each update, from Philox with the seed as its key.

    The counter is the number of a block of updates, so there is no state to save.
    """

    def __init__(self, seed: int, batch_size: int) -> None:
        self._seed = seed
        self._batch_size = batch_size
        self._number = -1
        self._block = np.zeros((BLOCK, batch_size))

    def of(self, update: int) -> np.ndarray:
        """Return the numbers of one update, `[batch_size] float64`."""
        number, place = divmod(update, BLOCK)
        if number != self._number:
            counter = number << 64  # a block uses far fewer than 2 ** 64 counts
            philox = np.random.Philox(key=self._seed, counter=counter)
            self._block = np.random.Generator(philox).random((BLOCK, self._batch_size))
            self._number = number
        numbers: np.ndarray = self._block[place]
        return numbers
