"""What a replay is to the rest of the learner: parcels go in, batches come out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from farflung.common.data.parcel import Parcel


@dataclass(frozen=True, slots=True)
class Batch:
    """Transitions as a loss needs them: gamma, n and endings are already in `returns` and `discounts`.

    Observations are by leaf of the spec's observation space; a plain space has one leaf, named "".
    """

    observations: Mapping[
        str, np.ndarray
    ]  # [B, *shape], or [B, stack, *shape] where the spec stacks frames
    actions: np.ndarray  # [B, *shape], the dtype of the action space
    returns: np.ndarray  # [B] float32: discounted rewards until the bootstrap observation
    discounts: (
        np.ndarray
    )  # [B] float32: weight of the bootstrap observation's value; 0 after TERMINATED only
    next_observations: Mapping[str, np.ndarray]  # the bootstrap observation, as `observations`
    extras: Mapping[str, np.ndarray]  # the spec's optional step columns, [B, *shape]
    indices: np.ndarray  # [B] int64: which transitions these are, counted from the first ever added
    weights: np.ndarray | None = None  # [B] float32: importance of each; None: all the same


class Replay(Protocol):
    """A store with one writer, which is also its reader: parcels are added between two updates."""

    def add(self, *parcels: Parcel) -> None:
        """Take the trajectories of parcels in order. What is stored does not depend on how many come at once."""
        ...

    def sample(self, update: int) -> Batch:
        """The batch of this update: the same content, seed and update number give the same batch."""
        ...

    def prioritise(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        """Sample these transitions [B] in proportion to these [B] from now on; a replay that samples uniformly passes over it."""
        ...

    def state(self) -> bytes:
        """What sampling depends on beside the rows, such as their priorities; empty where there is nothing."""
        ...

    def restore(self, state: bytes) -> None:
        """Go on from a `state()` of a replay of the same rows."""
        ...

    @property
    def size(self) -> int:
        """How many transitions can be sampled now."""
        ...

    @property
    def capacity(self) -> int:
        """How many transitions there is room for."""
        ...

    @property
    def memory(self) -> str:
        """The memory formula, for people."""
        ...
