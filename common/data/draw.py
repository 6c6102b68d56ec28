"""Draws from a pool: the opponent of an episode, and the seat that the live policy takes.

Both are functions of the episode's place in the seed tree, so they are the same on every machine.
"""

from typing import NamedTuple

from farflung.common.data import seeds
from farflung.common.data.pool import Opponent, Pool

OPPONENT = "opponent"  # in the seed tree
ALL = 1 << 63  # numbers of `seeds.number`


class Episode(NamedTuple):
    """The place of an episode in the seed tree of a run."""

    actor: int  # its index
    start: int  # of the actor: how often this index joined
    environment: int
    episode: int  # in that environment, from 0


def opponent(pool: Pool, seed: int, place: Episode, seat: int = 0) -> Opponent:
    """Return the opponent in a seat of an episode."""
    share = seeds.number(seed, OPPONENT, *place, seat) / ALL
    for entry in pool.entries:
        share -= entry.probability
        if share < 0:
            return entry.opponent
    # The probabilities add up to a little less than 1.
    return max(pool.entries, key=lambda entry: entry.probability).opponent


def live_seat(place: Episode, seats: int) -> int:
    """Return the seat of the live policy: all in turn, and not the same in all environments."""
    return (place.actor + place.environment + place.episode) % seats
