"""Uniform replay: every transition that is still whole is as likely as any other."""

import math
from collections.abc import Sequence

import numpy as np
import psutil

from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import ACTIONS, REWARDS, Column, Spec, column_name
from farflung.common.process.errors import ConfigurationError
from farflung.learner.replay.draws import BatchRandom
from farflung.learner.replay.protocol import Batch
from farflung.learner.replay.ring import Ring
from farflung.learner.replay.rows import rows


class UniformReplay:
    """Two kinds of rings: single frames, each stored once, and transitions that point into them.

    Transitions leave in the order they came, when their ring is full or their oldest frame is overwritten.
    """

    def __init__(
        self, spec: Spec, *, capacity: int, n_step: int, gamma: float, batch_size: int, seed: int
    ) -> None:
        if spec.horizon < n_step:
            raise ConfigurationError(
                f"a horizon of {spec.horizon} is below n = {n_step} steps: raise --horizon or take a smaller n"
            )
        columns = [
            column for column in spec.columns if column.per == "step" and column.name != REWARDS
        ]
        self._layout = _layout(columns)
        self._slots = frames_for(capacity, spec.stack, spec.horizon)
        self._frame_size = sum(
            np.dtype(column.dtype).itemsize * math.prod(column.shape)
            for column in spec.observations
        )
        self._capacity = capacity
        self._refuse_what_does_not_fit()
        self._transitions = Ring(capacity, self._layout)
        self._frames = {
            key: Ring(self._slots, np.dtype(space.dtype), space.shape)
            for key, space in spec.observation.items()
        }
        self._names = {key: column_name(key) for key in spec.observation}
        self._extras = [column.name for column in columns if column.name != ACTIONS]
        self._oldest = 0  # number of the oldest transition that is whole
        self._frame_count = 0
        self._stack = spec.stack
        self._offsets = np.arange(
            1 - spec.stack, 1
        )  # [stack] from a transition's frame to the frames of its observation
        self._n_step, self._gamma = n_step, gamma
        self._draws = BatchRandom(seed, batch_size)

    def prioritise(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        """All are as likely as any other."""

    def state(self) -> bytes:
        """Nothing beside the rows."""
        return b""

    def restore(self, state: bytes) -> None:
        """Nothing is needed but the rows."""

    @property
    def size(self) -> int:
        """How many transitions can be sampled now."""
        return self._transitions.count - self._oldest

    @property
    def capacity(self) -> int:
        """How many transitions there is room for."""
        return self._capacity

    @property
    def memory(self) -> str:
        """The memory formula, for people."""
        return (
            f"{self._capacity:,} transitions x {self._layout.itemsize} bytes + {self._slots:,} frames x {self._frame_size:,} bytes "
            f"= {self.nbytes / 2**30:.2f} GiB"
        )

    @property
    def nbytes(self) -> int:
        """Bytes that it takes when it is full."""
        return self._capacity * self._layout.itemsize + self._slots * self._frame_size

    def add(self, *parcels: Parcel) -> None:
        """Take the trajectories of parcels in order. Small columns are taken together, since most of their cost is the call of numpy."""
        for key, ring in self._frames.items():
            for parcel in parcels:
                ring.append(parcel.columns[self._names[key]])
        lengths = np.concatenate([parcel.lengths for parcel in parcels])
        self._transitions.append(self._rows(parcels, lengths))
        self._frame_count += int(lengths.sum()) + self._stack * len(lengths)
        self._forget()

    def sample(self, update: int) -> Batch:
        """The batch of this update: the same content, seed and update number give the same batch."""
        if self.size == 0:
            raise LookupError("an empty replay has nothing to sample")
        numbers = (self._draws.of(update) * self.size).astype(np.int64) + self._oldest
        transitions = self._transitions.take(numbers)
        observations, next_observations = self._observations(
            transitions["frame"], transitions["span"]
        )
        return Batch(
            observations=observations,
            actions=transitions[ACTIONS],
            returns=transitions["return"],
            discounts=transitions["discount"],
            next_observations=next_observations,
            extras={name: transitions[name] for name in self._extras},
            indices=numbers,
        )

    def _rows(self, parcels: Sequence[Parcel], lengths: np.ndarray) -> np.ndarray:  # [K] int32
        """The transitions of parcels whose first frame is the next one, `[sum(K)]` of the layout."""

        def column(name: str) -> np.ndarray:
            return np.concatenate([parcel.columns[name] for parcel in parcels])

        endings, rewards = np.concatenate([parcel.endings for parcel in parcels]), column(REWARDS)
        first = np.arange(
            self._stack - 1, self._stack * len(lengths), self._stack
        )  # frames that are nobody's step, cumulated
        transitions = np.empty(len(rewards), self._layout)
        transitions["frame"] = np.repeat(first, lengths) + np.arange(
            self._frame_count, self._frame_count + len(rewards)
        )
        transitions["return"], transitions["discount"], transitions["span"] = rows(
            lengths, endings, rewards, self._n_step, self._gamma
        )
        for name in (ACTIONS, *self._extras):
            transitions[name] = column(name)
        return transitions

    def _observations(
        self,
        frames: np.ndarray,  # [B] int64: the newest frame of each observation
        spans: np.ndarray,  # [B] int32: how many frames later its bootstrap observation ends
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Observations and bootstrap observations by leaf, with the frames before them where the spec stacks."""
        if self._stack == 1:
            return self._take(frames), self._take(frames + spans)
        if self._n_step > 1:
            return self._take(frames[:, None] + self._offsets), self._take(
                (frames + spans)[:, None] + self._offsets
            )
        both = self._take(
            frames[:, None] + np.arange(1 - self._stack, 2)
        )  # they share all frames but one: copy those once
        return {key: leaf[:, :-1] for key, leaf in both.items()}, {
            key: leaf[:, 1:] for key, leaf in both.items()
        }

    def _take(self, numbers: np.ndarray) -> dict[str, np.ndarray]:  # int64
        """Frames by leaf and number."""
        return {key: ring.take(numbers) for key, ring in self._frames.items()}

    def _forget(self) -> None:
        """Skip the oldest transitions as far as they, or a frame of their observation, are overwritten."""
        self._oldest = max(self._oldest, self._transitions.oldest)
        needed = (
            self._frame_count - self._slots + self._stack - 1
        )  # the lowest frame that still has its stack
        at_most = needed - int(
            self._transitions[self._oldest]["frame"]
        )  # frames rise by at least one from row to row
        if at_most > 0:
            numbers = np.arange(self._oldest, min(self._oldest + at_most, self._transitions.count))
            self._oldest += int(np.searchsorted(self._transitions.take(numbers)["frame"], needed))

    def _refuse_what_does_not_fit(self) -> None:
        """Say so at the start rather than be killed when the ring has filled."""
        available = psutil.virtual_memory().available
        if self.nbytes > available:
            raise ConfigurationError(
                f"the replay needs {self.memory}, but {available / 2**30:.2f} GiB are free: lower --capacity"
            )


def frames_for(capacity: int, stack: int, horizon: int) -> int:
    """How many frames hold so many transitions, where each trajectory brings `stack` frames beyond its steps.

    Enough as long as a window of `horizon` steps cuts into two trajectories on average; where episodes are shorter still, the
    oldest transitions leave a little before the ring of transitions is full. At least one whole trajectory always fits.
    """
    return max(capacity + math.ceil(capacity * stack * min(1, 2 / horizon)), horizon + stack)


def _layout(columns: list[Column]) -> np.dtype:
    """A transition is one record, so that one gather brings all of it."""
    fields = [("frame", "i8"), *((column.name, column.dtype, column.shape) for column in columns)]
    return np.dtype([*fields, ("return", "f4"), ("discount", "f4"), ("span", "i4")], align=True)
