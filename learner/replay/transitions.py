"""Transitions: rewards, gamma and endings become returns, discounts and bootstrap observations."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import REWARDS, Spec
from farflung.common.heads.valued import ACTION_VALUE, BEST_VALUE, VALUES
from farflung.common.process.errors import ConfigurationError
from farflung.learner.replay.prioritised import INITIAL_PRIORITY
from farflung.learner.replay.replay import DISCOUNTS, RETURNS, Columns
from farflung.learner.replay.store import FRAME, Store

SPAN = ".span"  # field of a row: steps from its observation to its bootstrap observation
TERMINATED = np.uint8(Ending.TERMINATED)  # numpy compares with an enum's member five times slower


class Transitions:
    """One row for each step: an observation, an action, an n-step return, a bootstrap observation.

    Extra columns of the spec come along: per step and per trajectory in the row itself, per
    observation beside the frames. Of those the newest frame counts, where the spec stacks frames.
    With columns of values, a row's first error under the actor's weights is its initial priority.
    """

    length = stride = 1

    def __init__(self, spec: Spec, *, n_step: int, gamma: float) -> None:
        if spec.horizon < n_step:
            raise ConfigurationError(
                f"a horizon of {spec.horizon} is below n = {n_step} steps: "
                "raise --horizon or take a smaller n"
            )
        if taken := [column.name for column in spec.extras if column.name in (RETURNS, DISCOUNTS)]:
            raise ConfigurationError(
                f"an extra column cannot be named {taken[0]}: every batch has a column of that name"
            )
        self._n_step, self._gamma, self._stack = n_step, gamma, spec.stack
        stored = [column for column in spec.columns if column.name != REWARDS]
        self._steps = [column.name for column in stored if column.per == "step"]
        self._trajectories = [column.name for column in stored if column.per == "trajectory"]
        self._in_rows = [*self._steps, *self._trajectories, RETURNS, DISCOUNTS]
        observations = [column.name for column in spec.observations]
        extras = [column.name for column in spec.extras if column.per == "observation"]
        self._single, self._stacked = (
            ([*observations, *extras], []) if spec.stack == 1 else (extras, observations)
        )
        fields = [(c.name, c.dtype, c.shape) for c in stored if c.per != "observation"]
        own = [(RETURNS, "f4"), (DISCOUNTS, "f4"), (SPAN, "i4")]
        self._valued = all(value in spec.extras for value in VALUES)
        if self._valued:
            own.append((INITIAL_PRIORITY, "f4"))
        self.layout = np.dtype([(FRAME, "i8"), *fields, *own], align=True)

    def cut(self, parcels: Sequence[Parcel], first_frame: int) -> np.ndarray:
        """Return the rows of parcels. Concatenate small columns: a call of numpy costs most."""
        lengths = _joined(parcel.lengths for parcel in parcels)
        endings = _joined(parcel.endings for parcel in parcels)
        rewards = _joined(parcel.columns[REWARDS] for parcel in parcels)
        rows = np.empty(len(rewards), self.layout)
        # Each trajectory has `stack` frames more than steps.
        before = np.arange(0, self._stack * len(lengths), self._stack)
        steps = np.arange(first_frame, first_frame + len(rows))
        rows[FRAME] = np.repeat(before, lengths) + steps
        rows[RETURNS], rows[DISCOUNTS], rows[SPAN] = n_step_returns(
            lengths, endings, rewards, self._n_step, self._gamma
        )
        for name in self._steps:
            rows[name] = _joined(parcel.columns[name] for parcel in parcels)
        for name in self._trajectories:
            rows[name] = _joined(parcel.columns[name] for parcel in parcels).repeat(lengths, axis=0)
        if self._valued:
            rows[INITIAL_PRIORITY] = first_errors(rows, lengths)
        return rows

    def columns(self, store: Store, numbers: np.ndarray) -> tuple[Columns, Columns]:
        """Return a batch's columns, and those at the bootstrap observations."""
        rows = store.rows(numbers)
        columns, next_columns = {name: rows[name] for name in self._in_rows}, {}
        first, spans = rows[FRAME], rows[SPAN]
        newest = first if self._stack == 1 else first + (self._stack - 1)
        for name in self._single:
            columns[name] = store.frames(name, newest)
            next_columns[name] = store.frames(name, newest + spans)
        for name in self._stacked:
            columns[name], next_columns[name] = self._stacks(store, name, first, spans)
        return columns, next_columns

    def _stacks(
        self,
        store: Store,
        name: str,
        first: np.ndarray,  # [B] int64: the oldest frame of each observation
        spans: np.ndarray,  # [B] int32
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return observations and bootstrap observations as stacks, `[B, stack, *shape]`."""
        frames = first[:, None] + np.arange(self._stack)
        if self._n_step > 1:
            return store.frames(name, frames), store.frames(name, frames + spans[:, None])
        # The two share all frames but one: copy those once.
        both = store.frames(name, first[:, None] + np.arange(self._stack + 1))
        return both[:, :-1], both[:, 1:]


def n_step_returns(
    lengths: np.ndarray,  # [K] int32, each at least 1
    endings: np.ndarray,  # [K] uint8: Ending
    rewards: np.ndarray,  # [R] float32, R = sum(lengths)
    n: int,
    gamma: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each step its n-step return, its discount, and the span to its bootstrap value.

    A row spans n steps, or those up to the end of its trajectory if they are fewer: the last n - 1
    steps bootstrap early, with the shorter discount. After TRUNCATED or OPEN the last observation
    has a value; after TERMINATED the discount is 0.

    The results are `[R] float32`, `[R] float32` and `[R] int32`.
    """
    if n == 1:
        return rewards, *_one_step(lengths, endings, gamma)
    # [R] steps to the end of the trajectory, the step itself included
    remaining = np.repeat(lengths.cumsum(), lengths) - np.arange(len(rewards))
    spans = np.minimum(remaining, n).astype(np.int32)
    powers = _powers(gamma, n)
    returns = rewards.copy()
    for ahead in range(1, n):
        # `where`, not a sum with zero: the sign of a zero must not depend on which parcels are
        # added together.
        np.add(
            returns[:-ahead],
            powers[ahead] * rewards[ahead:],
            out=returns[:-ahead],
            where=spans[:-ahead] > ahead,
        )
    final = np.repeat(endings == TERMINATED, lengths) & (remaining <= n)
    discounts = powers.take(spans)
    np.copyto(discounts, 0, where=final)
    return returns, discounts, spans


def first_errors(rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:  # [R], [K] int32
    """Return the sizes of the rows' errors under the weights that acted, `[R] float32`.

    The last rows of a trajectory that goes on bootstrap from an observation at which the actor
    chose nothing: theirs are NaN.
    """
    places = np.arange(len(rows)) + rows[SPAN]
    decided = places < np.repeat(lengths.cumsum(), lengths)
    best = rows[BEST_VALUE.name].take(places, mode="clip") if len(rows) else rows[BEST_VALUE.name]
    discounts = rows[DISCOUNTS]
    next_values = np.where(discounts > 0, np.where(decided, best, np.float32(np.nan)), 0)
    errors = rows[RETURNS] + discounts * next_values - rows[ACTION_VALUE.name]
    sizes: np.ndarray = np.abs(errors)
    return sizes


@lru_cache(8)
def _powers(gamma: float, n: int) -> np.ndarray:
    """Return the powers of gamma from 0 to n, `[n + 1] float32`."""
    powers: np.ndarray = (gamma ** np.arange(n + 1)).astype(np.float32)
    return powers


def _one_step(
    lengths: np.ndarray, endings: np.ndarray, gamma: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return discounts and spans for n = 1, the common case, which needs no neighbours."""
    last = lengths.cumsum() - 1
    discounts = np.full(last[-1] + 1 if len(last) else 0, gamma, np.float32)
    discounts[last[endings == TERMINATED]] = 0
    return discounts, np.ones(len(discounts), np.int32)


def _joined(columns: Iterable[np.ndarray]) -> np.ndarray:
    """Return the columns of parcels as one."""
    return np.concatenate(list(columns))
