"""What is collected: trajectories of single seats, and parcels of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from farflung.common.data.spec import Column
from farflung.common.data.version import Version

if TYPE_CHECKING:
    import numpy as np  # not loaded for those who only relay


class Ending(IntEnum):
    """How a trajectory ended."""

    OPEN = 0  # the horizon was reached; the episode goes on
    TERMINATED = 1  # the world ended: nothing follows, nothing is bootstrapped
    TRUNCATED = 2  # somebody stopped looking: the last observation still has a value


@dataclass(frozen=True, slots=True)
class Results:
    """Finished episodes. They travel in parcels and nowhere else, so that they add up."""

    returns: "np.ndarray" = field(default_factory=lambda: _none("float64"))  # [E] float64
    lengths: "np.ndarray" = field(default_factory=lambda: _none("int32"))  # [E] int32


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Consecutive steps of one seat in one episode under one version of the weights.

    Observation columns bring `stack - 1` leading frames and the final observation: `[stack + T, *shape]`. Step columns are `[T, *shape]`.
    """

    columns: "Mapping[str, np.ndarray]"
    length: int
    ending: Ending


@dataclass(frozen=True)
class Parcel:
    """Trajectories of one actor for one policy under one version, columns concatenated: one message, one insert."""

    version: Version
    lengths: "np.ndarray"  # [K] int32: steps of each trajectory
    endings: "np.ndarray"  # [K] uint8: Ending of each trajectory
    columns: "Mapping[str, np.ndarray]"  # per observation [sum(T) + K * stack, *shape], per step [sum(T), *shape], per trajectory [K, *shape]
    results: Results = field(default_factory=Results)
    evaluation: bool = False  # greedy episodes on their own start states: results without rows
    rows: int = field(init=False)  # how many environment steps it carries

    def __post_init__(self) -> None:
        """Count them once: everybody on the way asks."""
        object.__setattr__(
            self, "rows", sum(self.lengths.tolist())
        )  # in a fraction of the time that numpy takes for a few

    @property
    def size(self) -> int:
        """Bytes of its columns, near enough to its message for bounds."""
        return (
            sum(column.nbytes for column in self.columns.values())
            + 5 * len(self.lengths)
            + 12 * len(self.results.returns)
        )

    def trajectories(self, columns: Sequence[Column], stack: int) -> Iterator[Trajectory]:
        """The trajectories one by one, as views. For people and tests; replays take the block."""
        step = 0
        for index, (length, ending) in enumerate(
            zip(self.lengths.tolist(), self.endings.tolist(), strict=True)
        ):
            frame = step + index * stack
            cut = {
                "observation": slice(frame, frame + length + stack),
                "step": slice(step, step + length),
                "trajectory": slice(index, index + 1),
            }
            yield Trajectory(
                {c.name: self.columns[c.name][cut[c.per]] for c in columns}, length, Ending(ending)
            )
            step += length


def _none(dtype: str) -> "np.ndarray":
    """No values of a type."""
    import numpy as np

    return np.zeros(0, dtype)
