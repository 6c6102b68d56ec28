"""Collected data: trajectories of single seats, and parcels of trajectories."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from farflung.common.data.fields import MAGNITUDE, Natural
from farflung.common.data.spec import Column
from farflung.common.data.weights import Version
from farflung.common.process.errors import Refused

if TYPE_CHECKING:
    import numpy as np  # a broker does not load it


class Ending(IntEnum):
    """The end of a trajectory."""

    OPEN = 0  # the horizon was reached; the episode continues
    TERMINATED = 1  # the episode ended in the world: no bootstrapping
    TRUNCATED = 2  # the episode was cut short: the last observation still has a value


@dataclass(frozen=True, slots=True)
class Results:
    """Results of finished episodes. They travel in parcels and gradients: each is counted once."""

    returns: "np.ndarray" = field(default_factory=lambda: _none("float64"))  # [E] float64
    lengths: "np.ndarray" = field(default_factory=lambda: _none("int32"))  # [E] int32
    # Metrics of the spec by name, [E] float64, with NaN where an episode reported none; a metric
    # that none reported may be missing here.
    metrics: "Mapping[str, np.ndarray]" = field(default_factory=dict)

    def columns(self, metrics: Collection[str]) -> "list[np.ndarray]":
        """Return the columns in the order of the wire, with all metrics of a spec."""
        columns = [self.returns, self.lengths]
        if metrics:
            import numpy as np

            unknown = np.full(len(self.returns), np.nan)
            columns += [self.metrics.get(metric, unknown) for metric in metrics]
        return columns

    def part(self, first: int, end: int | None = None) -> "Results":
        """Return the results from one to before another, as views."""
        metrics = {name: values[first:end] for name, values in self.metrics.items()}
        return Results(self.returns[first:end], self.lengths[first:end], metrics)

    def require_bounded(self) -> None:
        """Refuse results that no environment has: the sum of others need not be finite."""
        # Bytes of truths, because `all` takes twice as long for few values.
        if len(self.returns) and (
            0 in (abs(self.returns) <= MAGNITUDE).tobytes() or 0 in (self.lengths >= 0).tobytes()
        ):
            raise Refused("range", f"a return beyond {MAGNITUDE:g}, or a negative length")
        for name, values in self.metrics.items():
            # Infinity is beyond it, and NaN, which is no value, is not.
            if len(values) and 1 in (abs(values) > MAGNITUDE).tobytes():
                raise Refused("range", f"a metric {name} beyond {MAGNITUDE:g}")


class Place(NamedTuple):
    """A parcel's place in a round of the sync mode."""

    actor_index: Natural
    ends: bool  # it is the actor's last parcel of the round that its version began


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Consecutive steps of one seat in one episode under one version of the weights.

    Observation columns have `stack - 1` leading frames and the final observation:
    `[stack + T, *shape]`. Step columns are `[T, *shape]`.
    """

    columns: "Mapping[str, np.ndarray]"
    length: int
    ending: Ending


@dataclass(frozen=True)
class Parcel:
    """Trajectories of one actor for one policy under one version, as concatenated columns.

    A parcel is one message and one insert.
    """

    version: Version
    lengths: "np.ndarray"  # [K] int32: steps of each trajectory
    endings: "np.ndarray"  # [K] uint8: Ending of each trajectory
    # Per observation [sum(T) + K * stack, *shape], per step [sum(T), *shape], per trajectory
    # [K, *shape].
    columns: "Mapping[str, np.ndarray]"
    results: Results = field(default_factory=Results)
    evaluation: bool = False  # greedy episodes on their own start states: results without rows
    place: Place | None = None  # of the sync mode
    rows: int = field(init=False)  # environment steps in it

    def __post_init__(self) -> None:
        """Count the rows once: they are read many times."""
        # For few trajectories `sum` takes a fraction of numpy's time.
        object.__setattr__(self, "rows", sum(self.lengths.tolist()))

    def require_bounded(self) -> None:
        """Refuse results that no environment has, and a version that no learner counts to."""
        self.results.require_bounded()
        epoch, number = self.version
        if epoch > MAGNITUDE or number > MAGNITUDE:
            raise Refused("range", f"version {self.version}")

    @property
    def size(self) -> int:
        """Return the bytes of its columns, close enough to its message's for bounds."""
        return (
            sum(column.nbytes for column in self.columns.values())
            + 5 * len(self.lengths)
            + (12 + 8 * len(self.results.metrics)) * len(self.results.returns)
        )

    def parts(self, most_rows: int, columns: Sequence[Column], stack: int) -> "list[Parcel]":
        """Return this parcel, or several with its trajectories in order, each of so many rows.

        The last one has the results. A trajectory is never cut.
        """
        if self.rows <= most_rows:
            return [self]
        bounds, rows = [0], 0
        for index, length in enumerate(self.lengths.tolist()):
            if rows and rows + length > most_rows:
                bounds.append(index)
                rows = 0
            rows += length
        ends = [*bounds[1:], len(self.lengths)]
        parts = [
            self._part(first, end, columns, stack) for first, end in zip(bounds, ends, strict=True)
        ]
        return [*parts[:-1], replace(parts[-1], results=self.results)]

    def _part(self, first: int, end: int, columns: Sequence[Column], stack: int) -> "Parcel":
        """Return the trajectories from one to before another, as views."""
        start, stop = int(self.lengths[:first].sum()), int(self.lengths[:end].sum())
        cut = {
            "observation": slice(start + first * stack, stop + end * stack),
            "step": slice(start, stop),
            "trajectory": slice(first, end),
        }
        own = {column.name: self.columns[column.name][cut[column.per]] for column in columns}
        return Parcel(self.version, self.lengths[first:end], self.endings[first:end], own)

    def trajectories(self, columns: Sequence[Column], stack: int) -> Iterator[Trajectory]:
        """Yield the trajectories one by one, as views. Tests use this; replays take the block."""
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
    """Return an empty array of a type."""
    import numpy as np

    return np.zeros(0, dtype)
