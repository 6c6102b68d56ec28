"""Memory of seats between their decisions: the newest frames, and the recurrent state."""

from collections.abc import Mapping, Sequence

import numpy as np

from farflung.actor.worlds.world import Due
from farflung.common.data import seeds
from farflung.common.data.spec import Column, Spec
from farflung.common.data.states import EPISODE, next_name, next_places, states

NUMBERS = 1 << 53  # of episodes: every language counts so far

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


class SeatMemory(FrameMemory):
    """All that a policy's seats need between two decisions.

    That is frames, the recurrent state, and the place in the episode where the spec asks for it. An
    episode begins with a state of zeros; windows and versions of the weights do not change it.
    """

    def __init__(
        self,
        spec: Spec,
        seats: int,
        columns: Sequence[Column] | None = None,
        place: tuple[int, int] | None = None,
    ) -> None:
        """Remember the observations of a spec, or other columns.

        An actor numbers its episodes at random, by its `place` in the seed tree: index and start.
        """
        super().__init__(spec.observations if columns is None else columns, seats, spec.stack)
        self._observed = [column.name for column in spec.observations]
        self._states = {
            state.name: np.zeros((seats, *state.shape), state.dtype) for state in states(spec.graph)
        }
        self._next = next_places(spec.graph)
        self._numbers = None
        if place is not None and EPISODE in spec.extras:
            own = spec.world.branch(spec.policy)
            self._numbers = seeds.generator(spec.world.seed, "episodes", *own, *place)
        self._places = np.zeros((seats, 2), np.int64)  # the episode's number, and the next step's
        self.forget(range(seats))

    @property
    def recurrent(self) -> bool:
        """True if the policy has a recurrent state."""
        return bool(self._states)

    @property
    def records(self) -> bool:
        """True if decisions have columns from here."""
        return self.recurrent or self._numbers is not None

    def inputs(self, due: Due) -> Columns:
        """Return the inputs of the graph: observations, and the state before the decision."""
        stacks = self.stacks(due)
        inputs = {name: stacks[name] for name in self._observed}
        return inputs | self.state(due.seats) if self._states else inputs

    def state(self, seats: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return the state of these seats by name, [n, *shape].

        That of all seats are the same arrays in each call.
        """
        if seats is None:
            return dict(self._states)
        return {name: state[seats] for name, state in self._states.items()}

    def columns(self, seats: np.ndarray | None) -> Columns:
        """Return the columns of a decision that is made now: state, and place in the episode."""
        columns = self.state(seats)
        if self._numbers is not None:
            columns[EPISODE.name] = self._places if seats is None else self._places[seats]
        return columns

    def keep(self, outputs: Sequence[np.ndarray], seats: np.ndarray | None) -> None:
        """Take the states out of the graph's outputs, once the decision is written down."""
        rows = slice(None) if seats is None else seats
        for name, state in self._states.items():
            state[rows] = outputs[self._next[next_name(name)]]
        if self._numbers is not None:
            self._places[rows, 1] += 1

    def forget(self, seats: Sequence[int]) -> None:
        """Let the next frame of these seats begin an episode, with a state of zeros."""
        super().forget(seats)
        for state in self._states.values():
            state[seats] = 0
        if self._numbers is not None:
            self._places[seats, 0] = self._numbers.integers(NUMBERS, size=len(seats))
            self._places[seats, 1] = 0
