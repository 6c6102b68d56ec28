"""Random numbers for sampling that depend on nothing but a seed and the number of the update."""

import numpy as np

BLOCK = 32  # updates drawn at once: a new generator costs as much as two batches


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
