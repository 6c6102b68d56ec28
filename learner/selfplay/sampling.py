"""The probabilities of archived versions in a pool: uniform, recent, or prioritised by results.

Prioritised fictitious self-play (Vinyals et al. 2019) plays most against those that are hard to
beat, or most even. p is the score of the live policy against a version, with a prior of one draw.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from farflung.common.data.pool import Entry, Opponent, Pool, archived
from farflung.common.data.weights import Version
from farflung.learner.selfplay.games import Games

Sampling = Literal["uniform", "recent", "hard", "even"]

OLDER = 0.9  # the weight of a version, for each newer one, where recent ones are preferred
POWER = 2  # of (1 - p), where hard ones are


def score(games: Games) -> float:
    """Return the mean score in some games and one draw more: 0.5 before the first game."""
    return (games.score + 0.5) / (games.count + 1)


def weights(
    sampling: Sampling,
    versions: Sequence[Version],  # the oldest first
    games: Mapping[Version, Games],  # of the live policy against each
    power: float = POWER,
) -> list[float]:
    """Return the shares of these versions, which add up to 1."""
    scores = [score(games.get(version, Games())) for version in versions]
    found = {
        "uniform": [1.0] * len(versions),
        "recent": [OLDER**age for age in range(len(versions) - 1, -1, -1)],
        "hard": [(1 - each) ** power for each in scores],
        "even": [each * (1 - each) for each in scores],
    }[sampling]
    total = sum(found)
    if not total > 0:  # every version is beaten so often that no double tells it from always
        return [1 / len(versions) for _ in versions]
    return [each / total for each in found]


def pool_of(
    shares: Mapping[Opponent, float],  # of random actions, scripts and the live policy
    of_archive: float,  # the share of all archived versions together
    versions: Sequence[Version],  # the oldest first
    games: Mapping[Version, Games],
    sampling: Sampling = "uniform",
    newest: int = 0,  # only so many versions; 0: all
) -> Pool:
    """Return the pool. Shares are relative; that of an empty archive goes to the others."""
    chosen = versions[-newest:] if newest else versions
    of_versions = of_archive if chosen or not shares else 0.0
    total = sum(shares.values()) + of_versions
    entries = [Entry(opponent, share / total) for opponent, share in shares.items()]
    if chosen:
        found = weights(sampling, chosen, games)
        entries += [
            Entry(archived(version), share * of_versions / total)
            for version, share in zip(chosen, found, strict=True)
        ]
    return Pool(tuple(entries))
