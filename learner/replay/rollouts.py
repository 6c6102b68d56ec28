"""Rollouts: on-policy rows in the order of collection, each learned from so often, then no more.

The rows of a run are cut into rollouts of a fixed number, in the order in which they entered. All
updates with one rollout come before those with the next one. So the rows of an update follow from
its number alone, and a resumed run goes on with the rows that are due.
"""

import logging
from collections.abc import Sequence

import numpy as np

from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import REWARDS, Column, Spec
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.log import once_every
from farflung.learner.replay.advantages import advantages
from farflung.learner.replay.replay import DISCOUNTS
from farflung.learner.replay.store import Ring
from farflung.learner.replay.transitions import Transitions

log = logging.getLogger(__name__)

VALUE = Column("value", "float32", (), "observation")
ADVANTAGES = "advantages"
CONTINUES = "continues"
VERSION = ".version"  # field of a row: the number of the version that chose its action


class RolloutRows(Transitions):
    """One row for each step, in order: its reward in `returns`, and the discount of what follows.

    `continues` is true where the next row is the next step of the same trajectory. With a lambda,
    rows have `advantages` too, from the `value` column that the actor recorded.
    """

    def __init__(self, spec: Spec, *, gamma: float, gae_lambda: float | None = None) -> None:
        super().__init__(spec, n_step=1, gamma=gamma)
        self._lambda, self._longest = gae_lambda, spec.horizon
        own = [(CONTINUES, "?")] if gae_lambda is None else [(CONTINUES, "?"), (ADVANTAGES, "f4")]
        names = [name for name, _ in own]
        if taken := [column.name for column in spec.extras if column.name in names]:
            raise ConfigurationError(
                f"an extra column cannot be named {taken[0]}: rollouts have a column of that name"
            )
        base = [(name, self.layout[name]) for name in self.layout.names or ()]
        self.layout = np.dtype([*base, *own, (VERSION, "i8")], align=True)
        self._in_rows += names

    def cut(self, parcels: Sequence[Parcel], first_frame: int) -> np.ndarray:
        """Return the rows of parcels."""
        rows = super().cut(parcels, first_frame)
        lengths = np.concatenate([parcel.lengths for parcel in parcels])
        rows[VERSION] = np.repeat(
            [parcel.version.number for parcel in parcels], [parcel.rows for parcel in parcels]
        )
        rows[CONTINUES] = True
        rows[CONTINUES][lengths.cumsum() - 1] = False
        if self._lambda is not None:
            values = np.concatenate([parcel.columns[VALUE.name] for parcel in parcels])
            frames = np.arange(len(rows)) + np.repeat(
                np.arange(len(lengths)) * self._stack + self._stack - 1, lengths
            )
            rows[ADVANTAGES] = advantages(
                np.concatenate([parcel.columns[REWARDS] for parcel in parcels]),
                values[frames],
                values[frames + 1],
                rows[DISCOUNTS],
                rows[CONTINUES],
                self._lambda,
                self._longest,
            )
        return rows


class InOrder:
    """The rows of each rollout, every one once in an epoch, as they came.

    A row has the weight 0 if its version is more than `max_lag` older than the newest version of
    its rollout: such rows are counted, and the log says so. None: rounds bound the lag themselves,
    and begin a version each, also where nothing was learned.
    """

    def __init__(
        self,
        *,
        rollout: int,
        epochs: int,
        batch_size: int,
        seed: int,
        capacity: int,
        max_lag: int | None,
    ) -> None:
        self._rollout, self._epochs, self._batch = rollout, epochs, batch_size
        self._seed, self._max_lag = seed, max_lag
        self._versions = Ring(capacity, np.dtype("i8"))
        self._before = 0  # rows of the run before the one with the number 0 here
        self._epoch, self._order = -1, np.zeros(0, np.int64)  # the order of that epoch
        self._first = -1  # of the newest rollout that was looked at
        self._weights: np.ndarray | None = None
        self.stale = 0  # rows so far

    def add(self, first: int, rows: np.ndarray) -> None:
        """Note the versions of new rows."""
        self._versions.append(rows[VERSION])

    def sample(self, update: int, stored: range) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the numbers of the rows that are due, `[B] int64`, and their weights if any."""
        epoch, at = divmod(update * self._batch, self._rollout)
        first = self._found(epoch // self._epochs * self._rollout - self._before, stored)
        # Of a damaged journal even less than a rollout may be left: then some rows come twice.
        count = min(self._rollout, stored.stop - first)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._drawn(epoch, first, count)
        if first != self._first:
            self._first, self._weights = first, self._weighed(first, count)
        places = self._order[at : at + self._batch] % count
        return first + places, None if self._weights is None else self._weights[places]

    def prioritise(self, numbers: np.ndarray, priorities: np.ndarray) -> None:
        """Do nothing: each row has its turn."""

    def state(self, stored: range) -> bytes:
        """Return how many rows the run has had, and how many of them were stale: two int64."""
        return np.array([self._before + stored.stop, self.stale], "<i8").tobytes()

    def restore(self, state: bytes, stored: range) -> None:
        """Continue from the `state()` of a sampler of the same rows. Their numbers may differ."""
        if state:
            rows, self.stale = np.frombuffer(state, "<i8").tolist()
            self._before = rows - stored.stop

    def _found(self, first: int, stored: range) -> int:
        """Return the first row of a rollout, or of another one if that is not stored whole."""
        if first >= stored.start and first + self._rollout <= stored.stop:
            return first
        log.warning(
            "the rows of a rollout are no longer here, so the newest ones take their place: "
            "a larger --capacity keeps more",
            extra=once_every(10),
        )
        return max(stored.start, stored.stop - self._rollout)

    def _drawn(self, epoch: int, first: int, count: int) -> np.ndarray:
        """Return the order of an epoch, `[rollout] int64`, over so many stored rows from a first.

        It follows from the rows, the seed and the epoch's number alone.
        """
        return np.arange(self._rollout)

    def _weighed(self, first: int, rows: int) -> np.ndarray | None:
        """Return the weights of a rollout's rows, `[rows] float32`; None if all are fresh."""
        if self._max_lag is None:
            return None
        versions = self._versions.take(np.arange(first, first + rows))
        fresh = versions >= versions.max() - self._max_lag
        if fresh.all():
            return None
        count = int((~fresh).sum())
        self.stale += count
        log.warning(
            "%d of the %d rows of a rollout are left out of the loss: their version is more than "
            "%d older than its newest one (%d rows so far)",
            count,
            rows,
            self._max_lag,
            self.stale,
            extra=once_every(10),
        )
        weights: np.ndarray = fresh.astype(np.float32)
        return weights


class Shuffled(InOrder):
    """The same in an order of its own for each epoch."""

    def _drawn(self, epoch: int, first: int, count: int) -> np.ndarray:
        order: np.ndarray = self.random(epoch).permutation(self._rollout)
        return order

    def random(self, epoch: int) -> np.random.Generator:
        """Return the source of an epoch's order."""
        return np.random.Generator(np.random.Philox(key=self._seed, counter=epoch << 64))
