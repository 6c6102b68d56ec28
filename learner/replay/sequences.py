"""Sequences: a trajectory is trained on as a whole, after a burn-in over those before it."""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import REWARDS, Spec
from farflung.common.data.states import EPISODE
from farflung.common.process.errors import ConfigurationError
from farflung.learner.replay.replay import DISCOUNTS, RETURNS, Batch, Columns
from farflung.learner.replay.store import FRAME, Store
from farflung.learner.replay.transitions import n_step_returns

SPANS = "spans"  # column: steps from each step to its bootstrap observation
MASK = "mask"  # column: 1 for the steps of a sequence, and 0 behind its end
BURN_IN = "burn_in"  # column: steps of the burn-in, and with a dot the start of its columns' names
LENGTH = ".length"  # field of a row: its steps
BEFORE = ".before"  # field of a row: how many rows ago the trajectory before it came; 0: none
OPEN = np.uint8(Ending.OPEN)


class Sequences:
    """One row for each trajectory, which is at most `horizon` steps of one episode.

    The batch's columns have `horizon` steps each, `[B, H, *shape]`, and one more observation,
    `[B, H + 1, (stack,) *shape]`: what lies behind the end of a shorter trajectory repeats its last
    entry, and has 0 in `mask`. Returns and discounts are those of n steps, fewer at the end of the
    trajectory. The bootstrap observation of step t has the number `t + spans[t]`.

    The trajectories before it in its episode, up to `burn_in` steps, are the same sequence further
    back: columns `burn_in.NAME` `[B, burn_in, *shape]`, the first `burn_in` `[B]` steps of which
    are real. Trajectories overlap in this way: each step is trained on in one row, and warms the
    state up for the next ones. A column per trajectory, such as the recurrent state, is that of the
    first step of all. Where a trajectory has left the replay the burn-in begins after it.
    """

    def __init__(
        self, spec: Spec, *, n_step: int, gamma: float, burn_in: int, capacity: int
    ) -> None:
        """Cut sequences for a replay of `capacity` rows."""
        if burn_in % spec.horizon:
            raise ConfigurationError(
                f"a burn-in of {burn_in} steps is no multiple of --horizon {spec.horizon}: a state "
                "is recorded where a window begins"
            )
        self.length = self.stride = spec.horizon
        self._n_step, self._gamma, self._stack = n_step, gamma, spec.stack
        self._pieces = burn_in // spec.horizon  # of the burn-in
        stored = [column for column in spec.columns if column.name != REWARDS]
        self._steps = [column.name for column in stored if column.per == "step"]
        self._trajectories = [column.name for column in stored if column.per == "trajectory"]
        self._frames = [column.name for column in stored if column.per == "observation"]
        self._seen = {column.name for column in spec.observations}
        _require_names(spec)
        fields = [
            (c.name, c.dtype, (self.length, *c.shape) if c.per == "step" else c.shape)
            for c in stored
            if c.per != "observation"
        ]
        each = [(RETURNS, "f4"), (DISCOUNTS, "f4"), (SPANS, "i4")]
        own = [(name, dtype, (self.length,)) for name, dtype in each]
        self.layout = np.dtype(
            [(FRAME, "i8"), (LENGTH, "i8"), (BEFORE, "i8"), *fields, *own], align=True
        )
        self._count, self._capacity = 0, capacity
        # By number of an episode that goes on: the row of its newest trajectory, and its next step.
        self._going_on: OrderedDict[int, tuple[int, int]] = OrderedDict()

    def cut(self, parcels: Sequence[Parcel], first_frame: int) -> np.ndarray:
        """Return the rows of parcels: one for each trajectory."""
        lengths = np.concatenate([parcel.lengths for parcel in parcels]).astype(np.int64)
        endings = np.concatenate([parcel.endings for parcel in parcels])
        columns = {
            name: np.concatenate([parcel.columns[name] for parcel in parcels])
            for name in (*self._steps, *self._trajectories, REWARDS)
        }
        rows = np.zeros(len(lengths), self.layout)
        starts = lengths.cumsum() - lengths
        rows[FRAME] = first_frame + starts + self._stack * np.arange(len(rows))
        rows[LENGTH] = lengths
        rows[BEFORE] = self._before(lengths, endings, columns[EPISODE.name])
        for name in self._trajectories:
            rows[name] = columns[name]
        row = np.repeat(np.arange(len(rows)), lengths)  # [R]: of each step
        step = np.arange(len(row)) - np.repeat(starts, lengths)
        columns[RETURNS], columns[DISCOUNTS], columns[SPANS] = n_step_returns(
            lengths, endings, columns[REWARDS], self._n_step, self._gamma
        )
        for name in (*self._steps, RETURNS, DISCOUNTS, SPANS):
            rows[name][row, step] = columns[name]
        return rows

    def columns(self, store: Store, numbers: np.ndarray) -> tuple[Columns, Columns]:
        """Return a batch's columns; what is behind a bootstrap observation is among them."""
        rows = store.rows(numbers)
        step = np.arange(self.length)  # [H]
        places = np.minimum(step, rows[LENGTH][:, None] - 1)  # [B, H]
        batch = np.arange(len(rows))[:, None]
        columns = {name: rows[name][batch, places] for name in (*self._steps, RETURNS, DISCOUNTS)}
        columns[MASK] = (step < rows[LENGTH][:, None]).astype(np.float32)
        columns[SPANS] = rows[SPANS]  # 0 behind the end
        seen = np.minimum(np.arange(self.length + 1), rows[LENGTH][:, None])
        columns |= self._shown(store, rows[FRAME][:, None] + seen)
        first = rows
        if self._pieces:
            first, earlier = self._burn_in(store, numbers, rows)
            columns |= earlier
        return columns | {name: first[name] for name in self._trajectories}, {}

    def _burn_in(
        self, store: Store, numbers: np.ndarray, rows: np.ndarray
    ) -> tuple[np.ndarray, Mapping[str, np.ndarray]]:
        """Return the first row of each sequence, and the columns of the burn-in."""
        oldest, pieces, lengths = store.numbers.start, list[np.ndarray](), list[np.ndarray]()
        going_on = np.ones(len(rows), np.bool_)
        for _ in range(self._pieces):  # from the newest to the oldest
            going_on = going_on & (rows[BEFORE] > 0) & (numbers - rows[BEFORE] >= oldest)
            numbers = numbers - rows[BEFORE] * going_on
            rows = store.rows(numbers)  # itself once more where nothing goes on
            pieces.insert(0, rows)
            lengths.insert(0, rows[LENGTH] * going_on)
        together = np.stack(pieces, axis=1)  # [B, pieces], the oldest first
        ends = np.stack(lengths, axis=1).cumsum(axis=1)  # [B, pieces]
        count = ends[:, -1]  # [B]
        place = np.minimum(np.arange(self._pieces * self.length), np.maximum(count - 1, 0)[:, None])
        piece = (place[:, :, None] >= ends[:, None, :-1]).sum(axis=2)  # [B, burn_in]
        batch = np.arange(len(rows))[:, None]
        step = place - np.where(piece > 0, ends[batch, piece - 1], 0)
        columns = {name: together[name][batch, piece, step] for name in self._steps} | self._shown(
            store, together[FRAME][batch, piece] + step
        )
        named = {f"{BURN_IN}.{name}": column for name, column in columns.items()}
        return rows, {**named, BURN_IN: count}

    def _shown(self, store: Store, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns per observation from their first frames' numbers [B, T] on."""
        newest = numbers + (self._stack - 1)
        stacks = numbers[..., None] + np.arange(self._stack)
        return {
            name: store.frames(name, stacks if self._stack > 1 and name in self._seen else newest)
            for name in self._frames
        }

    def _before(self, lengths: np.ndarray, endings: np.ndarray, episodes: np.ndarray) -> list[int]:
        """Return how many rows before each one the trajectory is that it goes on from; 0: none."""
        found = []
        rows = zip(lengths.tolist(), (endings == OPEN).tolist(), episodes.tolist(), strict=True)
        for length, is_open, (episode, step) in rows:
            row, expected = self._going_on.pop(episode, (0, -1))
            found.append(self._count - row if step == expected and step > 0 else 0)
            if is_open:
                self._going_on[episode] = self._count, step + length
            self._count += 1
        while len(self._going_on) > self._capacity:  # their last rows have left the replay
            self._going_on.popitem(last=False)
        return found


def before(batch: Batch) -> Batch:
    """Return the burn-in of a batch of sequences, as a batch; its columns are [B, burn_in, ...]."""
    prefix = f"{BURN_IN}."
    columns = {
        name.removeprefix(prefix): column
        for name, column in batch.columns.items()
        if name.startswith(prefix)
    }
    return Batch(columns, {}, batch.indices)


def _require_names(spec: Spec) -> None:
    if EPISODE not in spec.extras:
        raise ConfigurationError(
            f"sequences need the column {EPISODE.name}, by which trajectories of one episode are "
            "joined: name EPISODE among the columns of the algorithm"
        )
    require_free(spec, (RETURNS, DISCOUNTS, SPANS, MASK, BURN_IN))


def require_free(spec: Spec, own: Collection[str]) -> None:
    """Refuse an extra column with a name that every batch has."""
    if taken := [column.name for column in spec.extras if column.name in own]:
        raise ConfigurationError(
            f"an extra column cannot be named {taken[0]}: every batch has a column of that name"
        )
