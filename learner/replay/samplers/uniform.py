"""Uniform sampling: every stored row is as likely as any other."""

import numpy as np

from farflung.learner.replay.batch_random import BatchRandom


class Uniform:
    """Rows with equal probability, drawn with replacement."""

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
