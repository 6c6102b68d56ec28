"""Seats: the border between worlds and collection. What becomes of N of them in one step, in the columns of a spec."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from farflung.common.data.parcel import Ending
from farflung.common.data.spec import Space, column_name
from farflung.common.process.errors import ConfigurationError

OWN_SPACE = "the space that the environment declares (correct the environment)"


class End(NamedTuple):
    """How an episode ended, and the last thing that was seen in it."""

    ending: Ending
    observation: dict[str, np.ndarray]  # by column: [*shape]


@dataclass(slots=True)
class Step:
    """What became of all seats in one step. The arrays are the same objects from step to step, overwritten in place."""

    observations: dict[
        str, np.ndarray
    ]  # by column: [N, *shape], what each seat acts on next; of a new episode after an ending
    rewards: np.ndarray  # [N] float32
    ended: dict[int, End] = field(default_factory=dict)  # by seat
    lost: list[int] = field(
        default_factory=list
    )  # seats where no step happened and a new episode begins; none of them in `ended`


class Seats(Protocol):
    """N seats that step together: environments in a list, one vectorised environment, or a robot."""

    def __len__(self) -> int: ...

    def reset(self) -> Step:
        """Begins an episode in every seat."""

    def step(self, actions: np.ndarray) -> Step:
        """Takes one action in every seat. A seat whose episode ended is already in its next one."""

    def close(self) -> None:
        """Gives back what the worlds hold."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One column of the observations: how it is taken out of what environments return."""

    key: str  # of a dictionary space, else ""
    space: Space
    start: int | np.ndarray = 0  # the first number of a discrete space; columns count from 0

    @property
    def column(self) -> str:
        """Its name in trajectories and as an input of the acting graph."""
        return column_name(self.key)

    def of(self, observation: Any) -> Any:
        """This leaf of an observation, or of a batch of them."""
        return observation[self.key] if self.key else observation

    def checked(self, observation: Any, world: str) -> np.ndarray:
        """This leaf of an observation: [*shape]. What is not of its space is refused: numpy would broadcast or round it silently."""
        space = self.space
        try:
            found = np.asarray(self.of(observation))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"no {self.column} can be read out of an observation, and {world} has them"
            ) from error
        if found.shape != space.shape or not np.can_cast(found.dtype, space.dtype, "same_kind"):
            raise ConfigurationError(
                f"{self.column}: {found.dtype} {found.shape} was shown, and {world} has {space.dtype} {space.shape}"
            )
        return found

    def capture(self, observation: Any) -> np.ndarray:
        """A copy of this leaf of one observation: [*shape]."""
        row: np.ndarray = np.array(self.of(observation), self.space.dtype)
        if self.space.kind != "box":
            row -= self.start
        return row

    def gather(self, observations: Sequence[Any], into: np.ndarray) -> None:
        """Copies observations of as many environments as there are rows: `into [N, *shape]`."""
        parts = [self.of(observation) for observation in observations] if self.key else observations
        if self.space.shape:
            np.concatenate(
                parts, out=into.reshape((-1, *into.shape[2:])), casting="same_kind"
            )  # faster than row by row
        else:
            into[:] = parts
        if self.space.kind != "box":
            into -= self.start

    def copy(self, batch: Any, into: np.ndarray) -> None:
        """Copies a batch of observations: `into [N, *shape]`."""
        np.copyto(into, np.asarray(self.of(batch)), casting="same_kind")
        if self.space.kind != "box":
            into -= self.start


@dataclass(frozen=True, slots=True)
class Translation:
    """Between the columns of a spec and what environments take and return."""

    leaves: tuple[Leaf, ...]
    action: Space
    act: Callable[
        [np.ndarray], np.ndarray
    ]  # actions [N, *shape] as environments want them: always a copy, which they may keep

    def step(self, count: int) -> Step:
        """A step of so many seats, to be filled again and again."""
        rows = {
            leaf.column: np.zeros((count, *leaf.space.shape), leaf.space.dtype)
            for leaf in self.leaves
        }
        return Step(rows, np.zeros(count, np.float32))

    def gather(self, observations: Sequence[Any], into: Step) -> None:
        """Copies one observation of each environment."""
        for leaf in self.leaves:
            leaf.gather(observations, into.observations[leaf.column])

    def copy(self, batch: Any, into: Step) -> None:
        """Copies a batch of observations."""
        for leaf in self.leaves:
            leaf.copy(batch, into.observations[leaf.column])

    def capture(self, observation: Any) -> dict[str, np.ndarray]:
        """A copy of one observation, by column: [*shape]."""
        return {leaf.column: leaf.capture(observation) for leaf in self.leaves}

    def check(self, observation: Any) -> None:
        """Refuses what an environment returned if it is not of its own space."""
        for leaf in self.leaves:
            leaf.checked(observation, OWN_SPACE)
