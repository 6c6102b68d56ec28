"""Elo ratings with their uncertainty, from counts of games.

The model is Bradley and Terry's on Elo's scale: a player who is rated d points above another one
scores 1 / (1 + 10 ** (-d / 400)) on average, and a draw is half a win. A prior, a normal
distribution around `PRIOR_MEAN`, keeps ratings finite where a player won every game, or played
none. The rating is the most likely one under both (maximum a posteriori), and its error the
standard deviation of the normal distribution that has the same curvature there.
"""

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar

import numpy as np

from farflung.learner.selfplay.games import Games

Player = TypeVar("Player", bound=Hashable)

ELO = math.log(10) / 400  # of a rating, in the exponent
PRIOR_MEAN, PRIOR_DEVIATION = 0.0, 600.0
# Rated together: so many take a second of processor time and 130 MB
MOST_PLAYERS = 2000
STEPS = 100  # of Newton's method; ten are usual
NEAR = 1e-6  # Elo: the last step of all players was no longer


class Rating(NamedTuple):
    """A rating on Elo's scale."""

    elo: float
    error: float  # standard deviation; 0 where the rating is fixed
    games: float

    @property
    def half(self) -> float:
        """Half of the 95 % interval."""
        return 1.96 * self.error


def expected(difference: float) -> float:
    """Return the mean score of a player against one who is rated lower by this difference."""
    return 0.5 + 0.5 * math.tanh(ELO * difference / 2)


def rate(
    played: Mapping[tuple[Player, Player], Games],
    fixed: Mapping[Player, float] | None = None,
    players: Iterable[Player] = (),
    deviation: float = PRIOR_DEVIATION,
) -> dict[Player, Rating]:
    """Return the rating of each player in these games, and of further players without games.

    Fixed ratings are those of known players. Of more than `MOST_PLAYERS` others, those with the
    most games are rated, and the games of the rest do not count.
    """
    fixed = fixed or {}
    totals = dict.fromkeys([*fixed, *players], 0.0)
    for pair, games in played.items():
        for player in set(pair):
            totals[player] = totals.get(player, 0.0) + games.count
    unknown = [player for player in totals if player not in fixed]
    if len(unknown) > MOST_PLAYERS:
        unknown = sorted(unknown, key=lambda player: -totals[player])[:MOST_PLAYERS]
    place = {player: number for number, player in enumerate([*unknown, *fixed])}
    pairs = [
        (place[one], place[other], games.score, games.turned.score)
        for (one, other), games in played.items()
        if one != other and one in place and other in place and games.count
    ]
    known = np.array(list(fixed.values()), np.float64)
    ratings, errors = _most_likely(len(unknown), known, pairs, deviation)
    return {
        player: Rating(float(ratings[number]), float(errors[number]), totals[player])
        for player, number in place.items()
    }


def _most_likely(
    unknown: int,
    known: np.ndarray,  # [K] float64: fixed ratings, numbered after the unknown ones
    pairs: list[tuple[int, int, float, float]],
    deviation: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return ratings and errors [N + K] by Newton's method, each step halved until it helps."""
    one, other = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    won, lost = (np.array([pair[side] for pair in pairs], np.float64) for side in (2, 3))
    ratings = np.concatenate([np.full(unknown, PRIOR_MEAN), known])

    def height(at: np.ndarray) -> float:
        difference = ELO * (at[one] - at[other])
        likelihood = -won @ np.logaddexp(0, -difference) - lost @ np.logaddexp(0, difference)
        return float(likelihood - ((at[:unknown] - PRIOR_MEAN) ** 2).sum() / (2 * deviation**2))

    now = height(ratings)
    for _ in range(STEPS if unknown else 0):
        slope, curvature = _derivatives(ratings, unknown, (one, other, won, lost), deviation)
        step, share = np.linalg.solve(curvature, slope), 1.0
        while (then := height(_moved(ratings, share * step))) < now and share > NEAR:
            share /= 2
        ratings, now = _moved(ratings, share * step), then
        if abs(step).max() < NEAR:
            break
    errors = np.zeros(len(ratings))
    if unknown:
        _, curvature = _derivatives(ratings, unknown, (one, other, won, lost), deviation)
        errors[:unknown] = np.sqrt(np.linalg.inv(curvature).diagonal())
    return ratings, errors


def _moved(ratings: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return ratings [N + K] after a step [N] of the unknown ones."""
    moved = ratings.copy()
    moved[: len(step)] += step
    return moved


def _derivatives(
    ratings: np.ndarray, unknown: int, games: tuple[np.ndarray, ...], deviation: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the slope [N] of the logarithm of the posterior, and its negated curvature [N, N]."""
    one, other, won, lost = games
    score = 0.5 + 0.5 * np.tanh(ELO * (ratings[one] - ratings[other]) / 2)  # no overflow
    excess = ELO * (won - (won + lost) * score)
    weight = ELO**2 * (won + lost) * score * (1 - score)
    slope = np.bincount(one, excess, len(ratings)) - np.bincount(other, excess, len(ratings))
    curvature = np.zeros((unknown, unknown))
    inner = (one < unknown) & (other < unknown)
    np.add.at(curvature, (one[inner], other[inner]), -weight[inner])
    np.add.at(curvature, (other[inner], one[inner]), -weight[inner])
    own = np.bincount(one, weight, len(ratings)) + np.bincount(other, weight, len(ratings))
    curvature[np.diag_indices(unknown)] += own[:unknown] + 1 / deviation**2
    return slope[:unknown] - (ratings[:unknown] - PRIOR_MEAN) / deviation**2, curvature
