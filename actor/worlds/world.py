"""The interface of worlds: seats, and turns that name those that must act."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from farflung.common.data.parcel import Ending

EVALUATION = "evaluation"  # the role of an evaluator's worlds in the seed tree


class Seat(NamedTuple):
    """A place in a world for which a policy acts: an environment, or one agent in it."""

    environment: int
    agent: str = ""


class End(NamedTuple):
    """The end of an episode, and the last observation in it."""

    ending: Ending
    columns: Mapping[str, np.ndarray]  # as in Due, of one seat: [*shape]
    metrics: tuple[float, ...] = ()  # of the episode in the order of the spec; NaN: none


@dataclass(slots=True)
class Due:
    """The seats of a policy that must act now, and what they see."""

    columns: Mapping[str, np.ndarray]
    """By name, `[n, *shape]`: the observations, and the extra columns that the world supplies."""
    seats: np.ndarray | None = None  # [n] int64; None: every seat of the policy, in order


@dataclass(slots=True)
class Outcomes:
    """The consequences of decisions: for seats of a policy, since each one's own last one.

    An outcome comes once: when its seat is due again, when its episode ends, or when it is lost. A
    world adds up the rewards of a seat until then.
    """

    rewards: np.ndarray  # [n] float32
    seats: np.ndarray | None = None  # [n] int64; None: every seat of the policy, in order
    ended: dict[int, End] = field(default_factory=dict)  # by seat
    lost: list[int] = field(default_factory=list)
    """Seats of which the last step did not happen; their next observation begins an episode. None
    of them is in `ended`."""
    absent: list[int] = field(default_factory=list)
    """Seats without a step in an episode of their environment that is over."""


class Turn(NamedTuple):
    """One turn of a world, by policy. Due seats act before the next turn."""

    due: Mapping[str, Due]
    outcomes: Mapping[str, Outcomes]


class World(Protocol):
    """Environments with seats. It is lockstep, vectorised, turn-based or driven from outside.

    Seats are numbered from 0 within their policy. Where all seats of a policy act at once, its
    `seats` are None, and all arrays are the same objects in each turn, overwritten in place.
    """

    @property
    def seats(self) -> Mapping[str, tuple[Seat, ...]]:
        """The seats of each policy, by number."""

    def reset(self) -> Turn:
        """Begin an episode everywhere."""

    def step(self, actions: Mapping[str, np.ndarray]) -> Turn:
        """Take the actions `[n, *shape]` of the due seats of each policy, in their order.

        After the end of an episode a seat may already be due in its next one.
        """

    def close(self) -> None:
        """Release what the environments hold."""
