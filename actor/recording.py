"""Recording: the steps of a window become trajectories, all seats at once."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from farflung.actor.worlds.seats import Step
from farflung.common.data.parcel import Ending, Parcel, Results
from farflung.common.data.spec import ACTIONS, REWARDS, Column
from farflung.common.data.version import Version


class Frames:
    """The newest `stack` frames of every seat: what the policy acts on. A new episode begins with its first frame repeated."""

    def __init__(self, observations: Mapping[str, np.ndarray], stack: int) -> None:
        self.stack = stack
        self._observations = observations
        self.stacks = dict(
            observations
        )  # by column: [N, stack, *shape]; without stacking the observations themselves, [N, *shape]
        if stack > 1:
            self.stacks = {
                name: np.repeat(frame[:, None], stack, axis=1)
                for name, frame in observations.items()
            }

    def add(self, step: Step) -> None:
        """Takes the newest frame of every seat in."""
        if self.stack == 1:
            return
        begun = [*step.ended, *step.lost]
        for name, stacked in self.stacks.items():
            newest = step.observations[name]
            stacked[:, :-1] = stacked[:, 1:]
            stacked[:, -1] = newest
            stacked[begun] = newest[begun, None]

    def history(self, name: str) -> np.ndarray:
        """A column's frames, oldest first: [stack, N, *shape]."""
        return (
            self._observations[name][None] if self.stack == 1 else self.stacks[name].swapaxes(0, 1)
        )


class Scores:
    """Returns and lengths of the episodes that are going on, and of those that finished. A lost episode has no result."""

    def __init__(self, seats: int) -> None:
        self._returns = np.zeros(seats, np.float64)
        self._lengths = np.zeros(seats, np.int32)
        self._finished: list[tuple[float, int]] = []

    def add(self, step: Step) -> dict[int, tuple[float, int]]:
        """Counts one step of every seat; gives return and length of the episodes that finished with it, by seat."""
        self._returns += step.rewards
        self._lengths += 1
        if not step.ended and not step.lost:
            return {}
        finished = {
            seat: (float(self._returns[seat]), int(self._lengths[seat])) for seat in step.ended
        }
        self._finished += finished.values()
        begun = [*step.ended, *step.lost]
        self._returns[begun] = 0.0
        self._lengths[begun] = 0
        return finished

    def take(self) -> Results:
        """The episodes that finished since the last call."""
        finished, self._finished = self._finished, []
        return results(finished)


def results(finished: Sequence[tuple[float, int]]) -> Results:
    """Finished episodes, each a return and a length, as columns."""
    return Results(
        np.array([r for r, _ in finished], np.float64), np.array([n for _, n in finished], np.int32)
    )


class Cut(NamedTuple):
    """How a window falls into trajectories, seat after seat. Places are those of a recorder's rows: time * seats + seat."""

    lengths: np.ndarray  # [K] int32
    endings: np.ndarray  # [K] uint8
    steps: np.ndarray  # [R] int64: the place of each step
    frames: np.ndarray  # [R + K * stack] int64: the place of each frame
    finals: (
        np.ndarray
    )  # [E] int64: which of `frames` are the last of an episode that ended, and not among the rows


def cut(endings: np.ndarray, lost: np.ndarray, stack: int) -> Cut:
    """Cuts where an episode ended and where a step did not happen; `endings [T, N] uint8` and `lost [T, N] bool` are by time and seat."""
    ended, taken = endings.T != Ending.OPEN, ~lost.T  # [N, T] bool
    first, last = taken.copy(), taken.copy()
    first[:, 1:] &= ended[:, :-1] | ~taken[:, :-1]
    last[:, :-1] &= ended[:, :-1] | ~taken[:, 1:]
    seats, starts = np.nonzero(first)
    stops = np.nonzero(last)[1]
    lengths = stops - starts + 1
    steps_seat, steps_time = np.nonzero(taken)

    counts = lengths + stack
    ends = np.cumsum(counts)
    times = np.arange(counts.sum()) + np.repeat(starts - ends + counts, counts)
    # Only at the window's first row do frames of the same episode lie before; elsewhere an episode's first frame is repeated.
    times = np.maximum(times, np.repeat(np.where(starts > 0, starts + stack - 1, 0), counts))
    return Cut(
        lengths=lengths.astype(np.int32),
        endings=endings[stops, seats],
        steps=steps_time * len(taken) + steps_seat,
        frames=times * len(taken) + np.repeat(seats, counts),
        finals=ends[ended[seats, stops]] - 1,
    )


class Recorder:
    """Writes down a window step by step, and cuts it into trajectories at its end."""

    def __init__(self, columns: Sequence[Column], seats: int, horizon: int, stack: int) -> None:
        self.steps = 0  # of all seats together, so far
        self._stack = stack
        # One row for all seats at each time, so that a step is a block copy. Observations begin with the frames before the window.
        rows = {"observation": stack + horizon, "step": horizon}
        self._rows = {
            c.name: np.empty((rows[c.per], seats, *c.shape), c.dtype)
            for c in columns
            if c.per in rows
        }
        self._frames = [c.name for c in columns if c.per == "observation"]
        self._endings = np.zeros((horizon, seats), np.uint8)
        self._lost = np.zeros((horizon, seats), np.bool_)
        self._finals: dict[
            tuple[int, int], Mapping[str, np.ndarray]
        ] = {}  # by seat and time: the last observation of an episode

    def begin(self, frames: Frames) -> None:
        """Starts a window at what the seats see now."""
        for name in self._frames:
            self._rows[name][: self._stack] = frames.history(name)
        self._endings.fill(Ending.OPEN)
        self._lost.fill(False)
        self._finals.clear()
        self.steps = 0

    def add(self, actions: np.ndarray, step: Step) -> None:
        """Writes one step of every seat down."""
        t = self.steps
        self._rows[ACTIONS][t] = actions
        self._rows[REWARDS][t] = step.rewards
        for name in self._frames:
            self._rows[name][t + self._stack] = step.observations[name]
        for seat, (ending, observation) in step.ended.items():
            self._endings[t, seat] = ending
            self._finals[seat, t] = observation
        if step.lost:
            self._lost[t, step.lost] = True
        self.steps = t + 1

    def parcel(self, version: Version, scores: Results) -> Parcel:
        """What was written down since `begin`: whole trajectories, seat after seat; what is still going on is cut open here."""
        where = cut(self._endings[: self.steps], self._lost[: self.steps], self._stack)
        columns = {
            name: _take(rows, where.frames if name in self._frames else where.steps)
            for name, rows in self._rows.items()
        }
        finals = [
            self._finals[key] for key in sorted(self._finals)
        ]  # in the order of the trajectories
        for name in self._frames if finals else ():
            columns[name][where.finals] = [observation[name] for observation in finals]
        return Parcel(version, where.lengths, where.endings, columns, scores)


def _take(rows: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The rows [T, N, *shape] at these places: [len(places), *shape]."""
    return rows.reshape((-1, *rows.shape[2:])).take(places, axis=0)
