"""The standings of a run: its games against opponents, and the ratings that follow from them.

A game is an episode that reports an opponent and an outcome. The policy changes while it plays, so
games are counted by period: a period ends with a version that is archived, and its games count as
played by that version. Those after the newest archived version are played by the live policy.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from farflung.common.data.parcel import Results
from farflung.common.data.pool import (
    LIVE,
    OPPONENT,
    OUTCOME,
    RANDOM,
    SEAT,
    UNKNOWN,
    archived,
)
from farflung.common.data.weights import Version
from farflung.learner.selfplay.games import Games, Row
from farflung.learner.selfplay.ratings import Rating, rate

SEATS = 64  # that are told apart; the last one has all others
MOST_ROWS = 16_384  # beyond them, games against further opponents count as those against UNKNOWN
NONE = Version(0, 0)

Counts = dict[tuple[int, int], list[int]]  # (opponent, seat) -> wins, draws, losses


class Standings:
    """Wins, draws and losses by period, opponent and seat. For the training thread."""

    def __init__(self) -> None:
        self.played = 0  # games
        self.in_rounds = False  # a number is one version, in whichever epoch it was published
        self._rows = 0
        self._ends: tuple[Version, ...] = ()  # of the periods, in order
        self._closed: dict[Version, Counts] = {}
        self._open: Counts = {}
        self._through = NONE  # the newest version that played in the open period

    def add(self, results: Results, version: Version) -> None:
        """Count the games among finished episodes, which this version ended."""
        reported = results.metrics
        if OPPONENT not in reported or OUTCOME not in reported:
            return
        seats = reported[SEAT].tolist() if SEAT in reported else [0.0] * len(results.returns)
        rows = zip(reported[OPPONENT].tolist(), seats, reported[OUTCOME].tolist(), strict=True)
        for opponent, seat, outcome in rows:
            if opponent == opponent and outcome == outcome:  # NaN: the episode was no game
                won = 0 if outcome > 0 else 2 if outcome < 0 else 1
                self._count(version, _number(opponent, UNKNOWN), _number(seat, SEATS - 1), won)

    def keep(self, versions: Iterable[Version]) -> None:
        """Let periods end with these versions alone; those of others join the next one."""
        self._ends = tuple(sorted(versions))
        self.restore(self.state())

    def state(self) -> tuple[Row, ...]:
        """Return all counts, for a checkpoint."""
        periods = [*self._closed.items(), (self._through, self._open)]
        return tuple(
            Row(version, *key, *counts)
            for version, period in periods
            for key, counts in sorted(period.items())
        )

    def restore(self, rows: Iterable[Row]) -> None:
        """Take the counts of a checkpoint in place of all others."""
        self.played = self._rows = 0
        self._closed, self._open, self._through = {}, {}, NONE
        for row in rows:
            for outcome, games in enumerate((row.wins, row.draws, row.losses)):
                if games:
                    self._count(row.version, row.opponent, row.seat, outcome, games)

    def against(self) -> dict[int, dict[int, Games]]:
        """Return all games by the opponent's number and the seat."""
        found: dict[int, dict[int, Games]] = {}
        for row in self.state():
            seats = found.setdefault(row.opponent, {})
            seats[row.seat] = seats.get(row.seat, Games()) + _games(row)
        return found

    def lately(self) -> dict[int, Games]:
        """Return the games of the open period and the one before it, by the opponent's number.

        They tell how the policy does now, which is what prioritised sampling goes by.
        """
        found: dict[int, Games] = {}
        since = self._ends[-1] if self._ends else NONE
        for row in self.state():
            if row.version >= since:
                found[row.opponent] = found.get(row.opponent, Games()) + _games(row)
        return found

    def ratings(self) -> dict[int, Rating]:
        """Return the rating of each player by its number, the live policy among them.

        Random actions have the rating 0, if they were played.
        """
        pairs: dict[tuple[int, int], Games] = {}
        for row in self.state():
            player = archived(row.version).number if row.version in self._closed else LIVE.number
            if row.opponent not in (UNKNOWN, LIVE.number):  # a policy is as strong as itself
                pair = player, row.opponent
                pairs[pair] = pairs.get(pair, Games()) + _games(row)
        players = {player for pair in pairs for player in pair}
        fixed = {RANDOM.number: 0.0} if RANDOM.number in players else {}
        return rate(pairs, fixed)

    def _count(
        self, version: Version, opponent: int, seat: int, outcome: int, games: int = 1
    ) -> None:
        place = self._place(version)
        if place < len(self._ends):
            period = self._closed.setdefault(self._ends[place], {})
        else:
            period, self._through = self._open, max(self._through, version)
        if (opponent, seat) not in period:
            if self._rows >= MOST_ROWS:
                opponent = UNKNOWN
            self._rows += (opponent, seat) not in period
        period.setdefault((opponent, seat), [0, 0, 0])[outcome] += games
        self.played += games

    def _place(self, version: Version) -> int:
        """Return the place of the period in which a version plays."""
        if self.in_rounds:
            return bisect_left(self._ends, version.number, key=lambda end: end.number)
        return bisect_left(self._ends, version)


def totals(seats: Mapping[int, Games]) -> Games:
    """Return the games of all seats."""
    return sum(seats.values(), Games())


def _games(row: Row) -> Games:
    return Games(row.wins, row.draws, row.losses)


def _number(value: float, most: int) -> int:
    """Return a whole number from 0 up to one that stands for all others. No seat is the first."""
    if value != value:
        return 0
    return int(value) if 0 <= value < most and value == int(value) else most
