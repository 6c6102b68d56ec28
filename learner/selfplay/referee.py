"""The referee of a match: a world around another one that counts its games."""

from collections.abc import Mapping

import numpy as np

from farflung.actor.scores import Scores
from farflung.actor.worlds.world import Seat, Turn, World
from farflung.learner.selfplay.games import Games

SIDES = "one", "other"  # the policies of a match

Result = tuple[float, int]  # the return of a side in a game, and its steps


class Referee:
    """Counts the games of two sides that have one seat in each environment.

    The side with the higher return has won. Each environment has its share of the games from the
    start: to take the first that finish would count the short ones.
    """

    def __init__(self, world: World, games: int, most_steps: int) -> None:
        self.games = Games()  # as the first side sees them
        self.cut = 0
        self.different: set[int] = set()  # hashes of the moves of each game
        self._world, self._most_steps = world, most_steps
        count = len(world.seats[SIDES[0]])
        self._left = [len(range(table, games, count)) for table in range(count)]
        self._scores = {side: Scores(count) for side in SIDES}
        self._results: list[dict[str, Result | None]] = [{} for _ in range(count)]
        self._moves: list[list[bytes]] = [[] for _ in range(count)]
        self._due: Turn = Turn({}, {})

    @property
    def seats(self) -> Mapping[str, tuple[Seat, ...]]:
        """The seats of each side: one in each environment, in their order."""
        return self._world.seats

    @property
    def finished(self) -> int:
        """Games that count."""
        return int(self.games.count)

    @property
    def full(self) -> bool:
        """True once all games are played."""
        return not any(self._left)

    def reset(self) -> Turn:
        """Begin a game everywhere."""
        self._due = self._world.reset()
        return self._due

    def step(self, actions: Mapping[str, np.ndarray]) -> Turn:
        """Take the actions of the due seats, and count the games that they end."""
        for side, rows in actions.items():
            seats = self._due.due[side].seats
            for table, action in zip(
                range(len(rows)) if seats is None else seats, rows, strict=True
            ):
                self._moves[table].append(action.tobytes())
        self._due = turn = self._world.step(actions)
        for side, outcomes in turn.outcomes.items():
            for table, score in self._scores[side].add(outcomes).items():
                self._note(table, side, (score.total, score.length))
            for table in (*outcomes.lost, *outcomes.absent):
                self._note(table, side, None)
        return turn

    def close(self) -> None:
        """Close the world."""
        self._world.close()

    def _note(self, table: int, side: str, result: Result | None) -> None:
        """Take the result of a side; without one the game does not count."""
        results = self._results[table]
        results[side] = result
        if len(results) < len(SIDES):
            return
        one, other = (results[name] for name in SIDES)
        moves = hash(tuple(self._moves[table]))
        self._results[table], self._moves[table] = {}, []
        if one is None or other is None or not self._left[table]:
            return
        self._left[table] -= 1
        self.different.add(moves)
        self.cut += max(one[1], other[1]) >= self._most_steps
        self.games += Games(one[0] > other[0], one[0] == other[0], one[0] < other[0])
