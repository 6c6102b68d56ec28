"""The store of a replay: frames and rows in rings, each frame stored once."""

import math
from collections.abc import Sequence

import numpy as np
import psutil

from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Spec
from farflung.common.process.errors import ConfigurationError

FRAME = ".frame"  # field of a row: the number of its first frame. No column has a dot in front
SMALL = 1024  # bytes of frames that a row may need at worst, up to which all have room


class Store:
    """Rows, and the frames that they point to: the columns that have one element per observation.

    Rows leave in the order in which they came: when their ring is full, or when their first frame
    is overwritten.
    """

    def __init__(self, spec: Spec, layout: np.dtype, capacity: int, steps: int) -> None:
        frames = [column for column in spec.columns if column.per == "observation"]
        self.capacity = capacity
        self._row_size = layout.itemsize
        self._frame_size = sum(
            np.dtype(column.dtype).itemsize * math.prod(column.shape) for column in frames
        )
        self._slots = frames_for(steps, spec.stack, spec.horizon, self._frame_size)
        self._require_free_memory()
        self._rows = Ring(capacity, layout)
        self._frames = {
            column.name: Ring(self._slots, np.dtype(column.dtype), column.shape)
            for column in frames
        }
        self._any_frames = next(iter(self._frames.values()))
        self._oldest = 0  # number of the oldest row that is whole

    @property
    def numbers(self) -> range:
        """The numbers of the rows that are whole, counted from the first row ever added."""
        return range(self._oldest, self._rows.count)

    @property
    def next_frame(self) -> int:
        """The number of the next frame that is added."""
        return self._any_frames.count

    @property
    def memory(self) -> str:
        """The memory formula, for people."""
        return (
            f"{self.capacity:,} rows x {self._row_size:,} bytes + {self._slots:,} frames "
            f"x {self._frame_size:,} bytes = {self.nbytes / 2**30:.2f} GiB"
        )

    @property
    def nbytes(self) -> int:
        """Bytes of a full store."""
        return self.capacity * self._row_size + self._slots * self._frame_size

    def add(self, parcels: Sequence[Parcel], rows: np.ndarray) -> None:
        """Add the frames of parcels, and the rows that point to them."""
        for name, ring in self._frames.items():
            for parcel in parcels:
                ring.append(parcel.columns[name])
        self._rows.append(rows)
        self._forget()

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return copies of rows by number."""
        return self._rows.take(numbers)

    def frames(self, name: str, numbers: np.ndarray) -> np.ndarray:
        """Return copies of a column's frames by number, `[*numbers.shape, *shape]`."""
        return self._frames[name].take(numbers)

    def _forget(self) -> None:
        """Drop the oldest rows that are overwritten themselves, or in their first frame."""
        self._oldest = max(self._oldest, self._rows.oldest)
        oldest_frame = self._any_frames.count - self._slots
        # Frames rise by at least 1 from row to row: no more rows than this can be concerned.
        at_most = oldest_frame - int(self._rows[self._oldest][FRAME])
        if at_most > 0:
            numbers = np.arange(self._oldest, min(self._oldest + at_most, self._rows.count))
            frames = self._rows.take(numbers)[FRAME]
            self._oldest += int(np.searchsorted(frames, oldest_frame))

    def _require_free_memory(self) -> None:
        """Refuse at the start: else the process is killed when the rings have filled."""
        available = psutil.virtual_memory().available
        if self.nbytes > available:
            raise ConfigurationError(
                f"the replay needs {self.memory}, but {available / 2**30:.2f} GiB are free: "
                "lower --capacity"
            )


def frames_for(steps: int, stack: int, horizon: int, size: int) -> int:
    """Return the number of frames for so many steps; a trajectory has `stack` more than steps.

    Small frames have room for trajectories of a single step each, so that no row ever leaves early.
    With larger ones that would be twice the memory, or five times it with a stack of 4. Their
    number is enough while a window of `horizon` steps falls into two trajectories on average; rows
    leave early where trajectories are shorter. One whole trajectory always fits.
    """
    worst = steps * (1 + stack)
    if (1 + stack) * size > SMALL:
        worst = steps + math.ceil(steps * stack * min(1, 2 / horizon))
    return max(worst, horizon + stack)


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
