"""A replay: parcels go in, batches come out. An algorithm chooses its rows and its sampler."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import ACTIONS, OBSERVATIONS, Spec
from farflung.learner.replay.store import Store

RETURNS = "returns"
DISCOUNTS = "discounts"
DEMONSTRATED = "demonstrated"  # column of a batch with --demos, [B] bool: a demonstration's row

HASHED, AT_ONCE = 4096, 256  # rows: stacks of images in one gather are megabytes

Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Batch:
    """Sampled rows, column by column, each `[B, ...]`.

    `batch["mask"]` is a column of the row's step.

    Gamma, n and endings are already in `returns` and `discounts`. Extra columns keep their names.
    A column per observation is in both mappings: at the row's observation and at its bootstrap one.
    """

    columns: Columns
    next_columns: Columns  # at the bootstrap observation
    indices: np.ndarray  # [B] int64: numbers of the rows, counted from the first one ever added
    weights: np.ndarray | None = None  # [B] float32: importance of each row; None: all the same

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    @property
    def observations(self) -> dict[str, np.ndarray]:
        """Observations by leaf of the observation space; a plain space has one leaf, named "".

        Each is `[B, *shape]`, or `[B, stack, *shape]` where the spec stacks frames.
        """
        return _leaves(self.columns)

    @property
    def next_observations(self) -> dict[str, np.ndarray]:
        """The bootstrap observations, in the form of `observations`."""
        return _leaves(self.next_columns)

    @property
    def actions(self) -> np.ndarray:
        """Actions, `[B, *shape]` in the dtype of the action space."""
        return self.columns[ACTIONS]

    @property
    def returns(self) -> np.ndarray:
        """Discounted sums of the rewards before the bootstrap observation, `[B] float32`."""
        return self.columns[RETURNS]

    @property
    def discounts(self) -> np.ndarray:
        """Weights of the bootstrap observations' values, `[B] float32`; 0 after TERMINATED only."""
        return self.columns[DISCOUNTS]


class Rows(Protocol):
    """The meaning of a row: the way from parcels to rows, and from rows to the columns of a batch.

    A row is one record. Its field `FRAME` is the number of the first frame that the row needs; it
    rises by at least 1 from row to row, in the order of the rows.
    """

    @property
    def layout(self) -> np.dtype:
        """The dtype of a row: one record, so that one gather brings all of it."""

    @property
    def length(self) -> int:
        """Environment steps in a row, at most."""

    @property
    def stride(self) -> int:
        """Environment steps from a row to the next one, at most."""

    def cut(self, parcels: Sequence[Parcel], first_frame: int) -> np.ndarray:
        """Return the rows `[R] of layout` of parcels, the first frame of which has this number."""

    def columns(self, store: Store, numbers: np.ndarray) -> tuple[Columns, Columns]:
        """Return a batch's `columns` and `next_columns` for rows by number `[B] int64`."""


class Sampler(Protocol):
    """The choice of rows for each batch. A `range` holds the numbers of all stored rows."""

    def add(self, first: int, rows: np.ndarray) -> None:
        """Note new rows `[R] of layout`, numbered from `first`. Their columns are fields."""

    def sample(self, update: int, stored: range) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the numbers `[B] int64` of a batch's rows, and their weights `[B] float32` if any.

        The same content, seed and number of the update lead to the same rows.
        """

    def prioritise(self, numbers: np.ndarray, priorities: np.ndarray) -> None:
        """Note the priorities `[B]` of rows that are still stored, `[B] int64`."""

    def state(self, stored: range) -> bytes:
        """Return all that sampling depends on beside the rows, such as priorities; else nothing."""

    def restore(self, state: bytes, stored: range) -> None:
        """Continue from the `state()` of a sampler of the same rows. Their numbers may differ."""


class Replay:
    """A store, the meaning of its rows, and a sampler. One thread adds and samples."""

    def __init__(self, spec: Spec, rows: Rows, sampler: Sampler, *, capacity: int) -> None:
        self._store = Store(spec, rows.layout, capacity, steps=capacity * rows.stride)
        self._rows, self._sampler = rows, sampler

    @property
    def size(self) -> int:
        """Rows that can be sampled now."""
        return len(self._store.numbers)

    @property
    def capacity(self) -> int:
        """Rows that there is room for."""
        return self._store.capacity

    @property
    def stride(self) -> int:
        """Environment steps that a row stands for, at most: a sample of it counts as so many."""
        return self._rows.stride

    @property
    def steps(self) -> int:
        """Environment steps, counted back from the newest, that hold all stored rows."""
        size = self.size
        return size * self._rows.stride + self._rows.length - self._rows.stride if size else 0

    @property
    def memory(self) -> str:
        """The memory formula, for people."""
        return self._store.memory

    @property
    def held_bytes(self) -> int:
        """Bytes of the rows so far: the system provides memory as the rings fill."""
        return self._store.nbytes * self.size // max(1, self.capacity)

    def add(self, *parcels: Parcel) -> None:
        """Add the trajectories of parcels in order, with the same result one by one or together."""
        rows = self._rows.cut(parcels, self._store.next_frame)
        first = self._store.numbers.stop
        self._store.add(parcels, rows)
        self._sampler.add(first, rows)

    def sample(self, update: int) -> Batch:
        """Return the batch of an update, which follows from content, seed and number of update."""
        stored = self._store.numbers
        if not stored:
            raise LookupError("an empty replay has nothing to sample")
        numbers, weights = self._sampler.sample(update, stored)
        columns, next_columns = self._rows.columns(self._store, numbers)
        return Batch(columns, next_columns, numbers, weights)

    def prioritise(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        """Hand the priorities `[B]` of rows `[B] int64` to the sampler, unless they have left."""
        oldest = self._store.numbers.start
        if len(indices) and indices.min() < oldest:
            stored = indices >= oldest
            indices, priorities = indices[stored], priorities[stored]
        self._sampler.prioritise(indices, priorities)

    def digest(self) -> str:
        """Return a hash of the newest rows, at most `HASHED`, in order and as batches have them."""
        stored, found = self._store.numbers[-HASHED:], hashlib.blake2b(digest_size=16)
        for at in range(0, len(stored), AT_ONCE):
            both = self._rows.columns(self._store, np.array(stored[at : at + AT_ONCE]))
            for columns in both:
                for name in sorted(columns):
                    found.update(f"{name} {columns[name].dtype} {columns[name].shape}".encode())
                    found.update(columns[name].tobytes())
        return found.hexdigest()

    def state(self) -> bytes:
        """Return all that sampling depends on beside the rows; empty if there is nothing."""
        return self._sampler.state(self._store.numbers)

    def restore(self, state: bytes) -> None:
        """Continue from the `state()` of a replay of the same rows."""
        self._sampler.restore(state, self._store.numbers)


def _leaves(columns: Columns) -> dict[str, np.ndarray]:
    """Return the observation columns under the keys of the observation space."""
    if OBSERVATIONS in columns:
        return {"": columns[OBSERVATIONS]}
    prefix = f"{OBSERVATIONS}."
    return {
        name.removeprefix(prefix): column
        for name, column in columns.items()
        if name.startswith(prefix)
    }
