"""The games of a run for its status. Ratings take milliseconds, so they are made now and then."""

from collections.abc import Sequence

from farflung.common.data.pool import LIVE, label
from farflung.learner.observe.status import GamesStatus, OpponentStatus
from farflung.learner.selfplay.games import Games
from farflung.learner.selfplay.standings import Standings, totals

EVERY_S = 5.0
SHOWN = 32  # opponents, those with the most games


class GamesView:
    """Makes the part of the status about games, and remembers it."""

    def __init__(self, scripts: Sequence[str] = ()) -> None:
        self._scripts = scripts  # names of opponents
        self._played, self._made_at = 0, float("-inf")
        self._newest = GamesStatus()

    def status(self, standings: Standings, seconds: float, last: bool) -> GamesStatus:
        """Return counts and the rating of the live policy, a few seconds old; the last are new."""
        waits = not last and seconds - self._made_at < EVERY_S
        if standings.played != self._played and not waits:
            self._played, self._made_at = standings.played, seconds
            self._newest = games_status(standings, self._scripts)
        return self._newest


def games_status(standings: Standings, scripts: Sequence[str] = ()) -> GamesStatus:
    """Return the figures of all games."""
    against = {number: totals(seats) for number, seats in standings.against().items()}
    every = sum(against.values(), Games())
    lately = sum(standings.lately().values(), Games())
    rating = standings.ratings().get(LIVE.number)
    most = sorted(against.items(), key=lambda each: -each[1].count)[:SHOWN]
    return GamesStatus(
        played=standings.played,
        wins=int(every.wins),
        draws=int(every.draws),
        losses=int(every.losses),
        score=lately.score / lately.count if lately.count else None,
        elo=rating.elo if rating is not None else None,
        elo_error=rating.error if rating is not None else None,
        opponents=tuple(
            OpponentStatus(
                label(number, scripts), int(games.wins), int(games.draws), int(games.losses)
            )
            for number, games in most
        ),
    )
