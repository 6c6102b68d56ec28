"""The seats of one policy in a world of games, and their part of a turn."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from farflung.actor.worlds.game import Last, Seen
from farflung.actor.worlds.measures import Measures
from farflung.actor.worlds.spaces import WRONG, Gather, SpaceAdapter
from farflung.actor.worlds.world import Due, End, Outcomes, Seat
from farflung.common.data.parcel import Ending


class Side:
    """The seats of one policy: each of its agents in each environment.

    A turn is put together seat by seat, and taken as a whole.
    """

    def __init__(
        self, agents: Sequence[str], environments: int, adapter: SpaceAdapter, measures: Measures
    ) -> None:
        self.seats = tuple(
            Seat(number, agent) for number in range(environments) for agent in agents
        )
        self._adapter, self._measures = adapter, measures
        self._rows = adapter.rows(len(self.seats))
        # The first n rows, and the function that fills them, by n.
        self._firsts: dict[int, tuple[dict[str, np.ndarray], Gather]] = {}
        self._due: list[int] = []  # the seats that act next
        self._seen: dict[int, Seen] = {}  # by seat, in the turn that is being put together
        self._rewards: dict[int, Any] = {}
        self._ended: dict[int, End] = {}
        self._lost: list[int] = []
        self._absent: list[int] = []

    def show(self, seat: int, seen: Seen, *, first: bool) -> None:
        """Let a seat be due. The first observation of an episode is checked."""
        if first:
            self._adapter.check(*seen)
        self._seen[seat] = seen

    def settle(self, seat: int, reward: Any) -> None:
        """Add the outcome of a seat that goes on."""
        self._rewards[seat] = reward

    def end(self, seat: int, reward: Any, last: Last) -> None:
        """Add the outcome of a seat of which the episode has ended.

        Without a last observation the step is lost, or after a death leads to an empty one: nothing
        is ever expected from there.
        """
        self._rewards[seat] = reward
        if last.seen is not None:
            self._adapter.check(*last.seen)
            columns = self._adapter.capture(*last.seen)
            self._ended[seat] = End(last.ending, columns, self._measures.read(last.seen.info))
        elif last.ending is Ending.TERMINATED:
            columns = {name: row[0] for name, row in self._adapter.rows(1).items()}
            self._ended[seat] = End(last.ending, columns, self._measures.read({}))
        else:
            self._lost.append(seat)

    def lose(self, seat: int) -> None:
        """Note that the last step of a seat did not happen."""
        self._rewards[seat] = 0.0
        self._lost.append(seat)

    def miss(self, seat: int) -> None:
        """Note that a seat had no part in an episode that is over."""
        self._absent.append(seat)

    def decided(self, actions: np.ndarray) -> Iterator[tuple[int, Any]]:
        """Return the actions [n, *shape] of the due seats as their environments take them."""
        return zip(self._due, self._adapter.act(actions), strict=True)

    def due(self) -> Due | None:
        """Take the seats that are due, in order."""
        seen, self._seen = self._seen, {}
        self._due = seats = sorted(seen)
        if not seats:
            return None
        rows, gather = self._first(len(seats))
        found = [seen[seat] for seat in seats]
        try:
            gather([each[0] for each in found], [each[1] for each in found])
        except WRONG:
            for each in found:  # name the first observation that its space does not hold
                self._adapter.check(*each)
            raise
        return Due(rows, None if len(seats) == len(self.seats) else np.array(seats))

    def outcomes(self) -> Outcomes | None:
        """Take what became of seats, in their order."""
        if not self._rewards and not self._absent:
            return None
        seats = sorted(self._rewards)
        rewards = np.zeros(len(seats), np.float32)
        self._adapter.rewards([self._rewards[seat] for seat in seats], rewards)
        every = len(seats) == len(self.seats)
        taken = Outcomes(
            rewards,
            None if every else np.array(seats, np.int64),
            self._ended,
            self._lost,
            self._absent,
        )
        self.forget()
        return taken

    def forget(self) -> None:
        """Drop what became of seats."""
        self._rewards, self._ended, self._lost, self._absent = {}, {}, [], []

    def _first(self, count: int) -> tuple[dict[str, np.ndarray], Gather]:
        """Return the first so many rows, and the function that fills them.

        They are the same arrays each time, so that graphs stay bound.
        """
        if count not in self._firsts:
            rows = {name: row[:count] for name, row in self._rows.items()}
            self._firsts[count] = rows, self._adapter.gathering(rows)
        return self._firsts[count]
