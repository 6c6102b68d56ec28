"""A replay: parcels go in, batches come out."""

import numpy as np

from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Spec
from farflung.learner.replay.batch import Batch
from farflung.learner.replay.protocol import Rows, Sampler
from farflung.learner.replay.store import Store


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
    def steps(self) -> int:
        """Environment steps, counted back from the newest, that hold all stored rows."""
        size = self.size
        return size * self._rows.stride + self._rows.length - self._rows.stride if size else 0

    @property
    def memory(self) -> str:
        """The memory formula, for people."""
        return self._store.memory

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
        stored = indices >= self._store.numbers.start
        self._sampler.prioritise(indices[stored], priorities[stored])

    def state(self) -> bytes:
        """Return all that sampling depends on beside the rows; empty if there is nothing."""
        return self._sampler.state(self._store.numbers)

    def restore(self, state: bytes) -> None:
        """Continue from the `state()` of a replay of the same rows."""
        self._sampler.restore(state, self._store.numbers)
