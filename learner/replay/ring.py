"""A ring: a preallocated array that overwrites its oldest entries."""

import numpy as np


class Ring:
    """The last `capacity` entries, each under its number, counted from 0 for the first one ever."""

    def __init__(self, capacity: int, dtype: np.dtype, shape: tuple[int, ...] = ()) -> None:
        self.capacity = capacity
        self.count = 0  # entries ever appended
        self._values = np.zeros((capacity, *shape), dtype)
        self._lap = 0  # number of the entry in slot 0

    @property
    def oldest(self) -> int:
        """The lowest number that is still stored."""
        return max(0, self.count - self.capacity)

    def append(self, values: np.ndarray) -> None:  # [N, *shape]
        """Add entries in order. Of more than there is room for, the last ones stay."""
        first = self.count + max(0, len(values) - self.capacity)
        values = values[-self.capacity :]
        start = first % self.capacity
        head = min(len(values), self.capacity - start)
        self._values[start : start + head] = values[:head]
        if head < len(values):
            self._values[: len(values) - head] = values[head:]
        self.count = first + len(values)
        self._lap = self.count - self.count % self.capacity

    def __getitem__(self, number: int) -> np.ndarray | np.void:
        """Return one entry by its number, as a view."""
        entry: np.ndarray | np.void = self._values[number - self._lap]
        return entry

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """Return copies of entries by number, `[*numbers.shape, *shape]`; all must be stored.

        Numbers of the previous lap become negative, and numpy counts those from the end of the
        array: no modulo is needed.
        """
        return self._values.take(numbers - self._lap, axis=0)
