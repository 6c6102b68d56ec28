"""Counts of games: the points of one player against another, and a row of the standings."""

from dataclasses import dataclass

from msgspec import Struct

from farflung.common.data.fields import Natural
from farflung.common.data.weights import Version


@dataclass(frozen=True, slots=True)
class Games:
    """The games between two players, as the first one sees them."""

    wins: float = 0
    draws: float = 0
    losses: float = 0

    def __add__(self, other: "Games") -> "Games":
        """Return the games of both."""
        return Games(self.wins + other.wins, self.draws + other.draws, self.losses + other.losses)

    @property
    def count(self) -> float:
        """All of them."""
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> float:
        """The points: a draw is half a win."""
        return self.wins + self.draws / 2

    @property
    def turned(self) -> "Games":
        """The same games, as the second one sees them."""
        return Games(self.losses, self.draws, self.wins)


class Row(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The games of one period in one seat against one opponent, as a checkpoint has them."""

    version: Version  # the archived version that ends the period, or the newest one that played
    opponent: Natural  # its number
    seat: Natural
    wins: Natural
    draws: Natural
    losses: Natural
