"""Memory of seats between their decisions: the newest frames of each one."""

from collections.abc import Mapping, Sequence

import numpy as np

from farflung.actor.worlds.world import Due
from farflung.common.data.spec import Column

Columns = Mapping[str, np.ndarray]


class FrameMemory:
    """The newest `stack` frames of every seat. An episode begins with its first frame repeated.

    Without stacking there is nothing to remember: the newest frame is the one that is seen.
    """

    def __init__(self, columns: Sequence[Column], seats: int, stack: int) -> None:
        self._stack = stack
        self._fresh = np.ones(seats, np.bool_)  # their next frame begins an episode
        self._any_fresh = True
        self._stacks = {
            column.name: np.zeros((seats, stack, *column.shape), column.dtype)
            for column in columns
            if stack > 1
        }

    def see(self, due: Due) -> None:
        """Take in the newest frame of the due seats."""
        columns, seats = due.columns, due.seats
        for name, stacked in self._stacks.items():
            if seats is None:
                stacked[:, :-1] = stacked[:, 1:]
                stacked[:, -1] = columns[name]
            else:
                stacked[seats, :-1] = stacked[seats, 1:]
                stacked[seats, -1] = columns[name]
        if self._any_fresh:
            self._begin(seats)

    def forget(self, seats: Sequence[int]) -> None:
        """Let the next frame of these seats begin an episode."""
        if self._stack > 1:
            self._fresh[seats] = self._any_fresh = True

    def stacks(self, due: Due) -> Columns:
        """Return the newest frames of the due seats, [n, *shape] or [n, stack, *shape].

        Those of all seats are the same arrays in each call.
        """
        if self._stack == 1:
            return due.columns
        if due.seats is None:
            return self._stacks
        return {name: stacked[due.seats] for name, stacked in self._stacks.items()}

    def history(self, name: str, due: Due) -> np.ndarray:
        """Return the frames of the due seats, oldest first: [stack, n, *shape]."""
        if self._stack == 1:
            return np.expand_dims(due.columns[name], 0)
        stacked = self._stacks[name]
        return np.swapaxes(stacked if due.seats is None else stacked[due.seats], 0, 1)

    def frames(self, name: str, seat: int) -> np.ndarray:
        """Return a copy of one seat's frames, [stack, *shape]."""
        frames: np.ndarray = self._stacks[name][seat]
        return frames.copy()

    def _begin(self, seats: np.ndarray | None) -> None:
        begun = self._fresh.nonzero()[0] if seats is None else seats[self._fresh[seats]]
        for stacked in self._stacks.values():
            stacked[begun] = stacked[begun, -1:]
        self._fresh[begun] = False
        self._any_fresh = bool(self._fresh.any())
