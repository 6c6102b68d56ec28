"""Rollouts for policies with a memory: whole trajectories, from the state that the actor had there.

A state is recorded at the first step of each trajectory, so an epoch has trajectories in an order
of its own, and their steps one after the other. A batch or a rollout may end within a trajectory.
The rest of it, in the next one, is unrolled from its recorded state too: its earlier observations
are a burn-in, which counts in no loss.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Spec
from farflung.learner.replay.replay import Columns
from farflung.learner.replay.rollouts import RolloutRows, Shuffled
from farflung.learner.replay.sequences import BURN_IN, require_free
from farflung.learner.replay.store import Ring, Store

BEGINS = "begins"  # column: true in the first row of each sequence of a batch
PLACE = ".place"  # field of a row: steps of its trajectory before it


class RolloutSequences(RolloutRows):
    """Rows of a rollout, with what it takes to unroll the sequences that a batch of them has.

    Rows in a row that are steps of one trajectory are a sequence: `begins` is true in its first
    one. There, `burn_in` is the number of earlier steps of its trajectory, the observations of
    which are in the columns `burn_in.NAME`, for all sequences one after the other. A column per
    trajectory, such as the recurrent state, is that of the trajectory's first step.
    """

    def __init__(self, spec: Spec, *, gamma: float, gae_lambda: float | None = None) -> None:
        super().__init__(spec, gamma=gamma, gae_lambda=gae_lambda)
        require_free(spec, (BEGINS, BURN_IN))
        own = [(name, self.layout[name]) for name in self.layout.names or ()]
        self.layout = np.dtype([*own, (PLACE, "i8")], align=True)
        self._seen = [column.name for column in spec.observations]

    def cut(self, parcels: Sequence[Parcel], first_frame: int) -> np.ndarray:
        """Return the rows of parcels."""
        rows = super().cut(parcels, first_frame)
        lengths = np.concatenate([parcel.lengths for parcel in parcels])
        rows[PLACE] = within(lengths)
        return rows

    def columns(self, store: Store, numbers: np.ndarray) -> tuple[Columns, Columns]:
        """Return a batch's columns, with the burn-in, and those at the bootstrap observations."""
        columns, next_columns = super().columns(store, numbers)
        places = store.rows(numbers)[PLACE]
        begins = places == 0
        begins[0] = True
        begins[1:] |= np.diff(numbers) != 1
        # Fewer than all are here only where --capacity hardly holds two rollouts.
        burn_in = np.where(begins, np.minimum(places, numbers - store.numbers.start), 0)
        earlier = np.repeat(numbers - burn_in, burn_in) + within(burn_in)
        shown, _ = super().columns(store, earlier)
        named = {f"{BURN_IN}.{name}": shown[name] for name in self._seen}
        return {**columns, **named, BEGINS: begins, BURN_IN: burn_in}, next_columns


class ShuffledSequences(Shuffled):
    """The rows of each rollout, every one once in an epoch: whole trajectories in any order."""

    def __init__(self, *, capacity: int, **others: Any) -> None:
        super().__init__(capacity=capacity, **others)
        self._places = Ring(capacity, np.dtype("i8"))

    def add(self, first: int, rows: np.ndarray) -> None:
        """Note versions and places of new rows."""
        super().add(first, rows)
        self._places.append(rows[PLACE])

    def _drawn(self, epoch: int, first: int, count: int) -> np.ndarray:
        begins = self._places.take(np.arange(first, first + count)) == 0
        begins[0] = True
        (starts,) = begins.nonzero()
        order = in_pieces(starts, count, self.random(epoch).permutation(len(starts)))
        return np.resize(order, self._rollout)  # of a damaged journal some rows come twice


def within(lengths: np.ndarray) -> np.ndarray:
    """Return the numbers from 0 to each length, one after the other: [sum(lengths)] int64."""
    found: np.ndarray = np.arange(lengths.sum()) - np.repeat(lengths.cumsum() - lengths, lengths)
    return found


def in_pieces(starts: np.ndarray, count: int, permutation: np.ndarray) -> np.ndarray:
    """Return the numbers below `count` in pieces that begin at `starts` and stay whole, permuted.

    All are int64; `starts` [K] rises from 0, and the result is [count].
    """
    lengths = np.diff(starts, append=count)[permutation]
    order: np.ndarray = np.repeat(starts[permutation], lengths) + within(lengths)
    return order
