"""The store of a replay: frames and rows in rings, each frame stored once."""

import logging
import math
from collections.abc import Sequence

import numpy as np
import psutil

from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Spec
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.log import once_every
from farflung.learner.replay.kept import Kept

log = logging.getLogger(__name__)

FRAME = ".frame"  # field of a row: the number of its first frame. No column has a dot in front
JOINED_BYTES = 16 << 10  # of a parcel's frames: larger ones are copied once, without the others
SHARE = 8  # of the ring of frames: it grows by at least one part in so many


class Store:
    """Rows, and the frames that they point to: the columns that have one element per observation.

    Rows leave in the order in which they came, when their ring is full. The ring of frames begins
    with room for rows of long trajectories, and grows where shorter ones need more: each has
    `stack` more frames than steps. Only where no memory is free for that do rows leave early, once
    their first frame is overwritten.
    """

    def __init__(self, spec: Spec, layout: np.dtype, capacity: int, steps: int) -> None:
        frames = [column for column in spec.columns if column.per == "observation"]
        self.capacity = capacity
        self._row_size = layout.itemsize
        self._frame_size = sum(
            np.dtype(column.dtype).itemsize * math.prod(column.shape) for column in frames
        )
        self._slots = frames_for(steps, spec.stack, spec.horizon)
        self._require_free_memory()
        self._rows = Ring(capacity, layout)
        self._frames = {
            column.name: Ring(self._slots, np.dtype(column.dtype), column.shape)
            for column in frames
        }
        self._kept = Kept()
        self._any_name, self._any_frames = next(iter(self._frames.items()))
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
        self._make_room(sum(len(parcel.columns[self._any_name]) for parcel in parcels), rows)
        for name, ring in self._frames.items():
            columns = [parcel.columns[name] for parcel in parcels]
            # A second copy of small columns costs less than a call for each.
            if len(columns) > 1 and sum(map(_size, columns)) < JOINED_BYTES * len(columns):
                columns = [np.concatenate(columns)]
            for column in columns:
                ring.append(column)
        self._rows.append(rows)
        self._forget()

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return copies of rows by number."""
        return self._rows.take(numbers)

    def frames(self, name: str, numbers: np.ndarray) -> np.ndarray:
        """Return copies of a column's frames by number, `[*numbers.shape, *shape]`.

        Large ones are in memory of an earlier batch that nothing refers to any more.
        """
        ring = self._frames[name]
        return ring.take(numbers, self._kept.lend((*numbers.shape, *ring.shape), ring.dtype))

    def _make_room(self, frames: int, rows: np.ndarray) -> None:
        """Let the ring of frames grow, if it must to keep the first frame of the oldest row."""
        oldest = max(self._oldest, self._rows.count + len(rows) - self.capacity)
        new = oldest - self._rows.count
        if new >= len(rows):  # there is none
            return
        first = rows[new][FRAME] if new >= 0 else self._rows[oldest][FRAME]
        needed = self._any_frames.count + frames - int(first)
        if needed <= self._slots:
            return
        slots = max(needed, self._slots + self._slots // SHARE)
        more, free = (slots - self._slots) * self._frame_size, psutil.virtual_memory().available
        if more > free:
            log.warning(
                "short trajectories need %.2f GiB more for the replay's frames, and %.2f GiB are "
                "free: the oldest rows leave early. Lower --capacity",
                more / 2**30,
                free / 2**30,
                extra=once_every(60),
            )
            return
        for ring in self._frames.values():
            ring.grow(slots)
        self._slots = slots

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


def _size(column: np.ndarray) -> int:
    return column.nbytes


def frames_for(steps: int, stack: int, horizon: int) -> int:
    """Return the number of frames to begin with; a trajectory has `stack` more than steps.

    It is enough while a window of `horizon` steps falls into two trajectories on average. Episodes
    of one step each need twice as many frames as steps, or five times with a stack of 4. One whole
    trajectory always fits.
    """
    return max(steps + math.ceil(steps * stack * min(1, 2 / horizon)), horizon + stack)


class Ring:
    """The last `capacity` entries, each under its number, counted from 0 for the first one ever."""

    def __init__(self, capacity: int, dtype: np.dtype, shape: tuple[int, ...] = ()) -> None:
        self.capacity, self.dtype, self.shape = capacity, dtype, shape
        self.count = 0  # entries ever appended
        self._values = np.zeros((capacity, *shape), dtype)
        self._lap = 0  # number of the entry in slot 0
        self._since = 0  # lowest number that was stored when it grew

    @property
    def oldest(self) -> int:
        """The lowest number that is still stored."""
        return max(self._since, self.count - self.capacity)

    def append(self, values: np.ndarray) -> None:  # [N, *shape]
        """Add entries in order. Of more than there is room for, the last ones stay."""
        first = self.count + max(0, len(values) - self.capacity)
        values, stored = values[-self.capacity :], self._values
        if self.dtype.fields and values.dtype == self.dtype:
            # As plain bytes: numpy copies records field by field, which takes twenty times as long.
            plain = np.dtype((np.void, self.dtype.itemsize))
            values, stored = values.view(plain), stored.view(plain)
        start = (first - self._lap) % self.capacity
        head = min(len(values), self.capacity - start)
        stored[start : start + head] = values[:head]
        if head < len(values):
            stored[: len(values) - head] = values[head:]
        self.count = first + len(values)
        self._lap = self.count - (start + len(values)) % self.capacity

    def grow(self, capacity: int) -> None:
        """Make room for more entries, in place where the system can. None is lost."""
        self._since, slot = self.oldest, self.count - self._lap
        more, end = capacity - self.capacity, self.capacity
        # No view of it is alive: `take` copies.
        self._values.resize((capacity, *self._values.shape[1:]), refcheck=False)
        while self._lap and end > slot:  # entries of the previous lap stay at the end
            start = max(slot, end - more)  # a copy of all of them at once would be in a new array
            self._values[start + more : end + more] = self._values[start:end]
            end = start
        self.capacity = capacity

    def __getitem__(self, number: int) -> np.ndarray | np.void:
        """Return one entry by its number, as a view."""
        entry: np.ndarray | np.void = self._values[number - self._lap]
        return entry

    def take(self, numbers: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return copies of entries by number, `[*numbers.shape, *shape]`; all must be stored.

        Numbers of the previous lap become negative, and numpy counts those from the end of the
        array: no modulo is needed. With `out` they go there: numpy would copy them twice if it had
        to check the numbers before.
        """
        slots = numbers - self._lap
        if out is None:
            return self._values.take(slots, axis=0)
        if slots.min() < -self.capacity or slots.max() >= self.capacity:
            raise IndexError("a number that is not stored")
        return self._values.take(slots, axis=0, out=out, mode="wrap")
