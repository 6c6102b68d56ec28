"""The border between worlds and collection: what becomes of N seats in one step."""

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from common.trajectory import Ending


class End(NamedTuple):
    """How an episode ended, and the last thing that was seen in it."""

    ending: Ending
    observation: dict[str, np.ndarray]  # by column: [*shape]


@dataclass(slots=True)
class Step:
    """What became of all seats in one step. The arrays are the same objects from step to step, overwritten in place."""

    observations: dict[str, np.ndarray]  # by column: [N, *shape], what each seat acts on next; of a new episode after an ending
    rewards: np.ndarray  # [N] float32
    ended: dict[int, End] = field(default_factory=dict)  # by seat
    lost: list[int] = field(default_factory=list)  # seats where no step happened and a new episode begins


class Seats(Protocol):
    """N seats that step together: environments in a list, one vectorised environment, or a robot."""

    def __len__(self) -> int: ...

    def reset(self) -> Step:
        """Begins an episode in every seat."""

    def step(self, actions: np.ndarray) -> Step:
        """Takes one action in every seat. A seat whose episode ended is already in its next one."""

    def close(self) -> None:
        """Gives the worlds back what they hold."""
