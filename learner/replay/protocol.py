"""The two parts of a replay that an algorithm chooses: the meaning of a row, and the sampler."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from farflung.common.data.parcel import Parcel
from farflung.learner.replay.store import Store

Columns = Mapping[str, np.ndarray]


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
