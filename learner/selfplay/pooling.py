"""The pool of a run: the opponents that its settings name, and the versions in its archive."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from farflung.common.data.fields import NAME, RULE
from farflung.common.data.pool import ENTRIES, LIVE, RANDOM, Opponent, Pool, archived, scripted
from farflung.common.data.weights import Version
from farflung.common.process.config import require
from farflung.learner.selfplay.games import Games
from farflung.learner.selfplay.sampling import Sampling, pool_of

ARCHIVE = "archive"  # all archived versions together
MOST_NAMED = 50  # opponents beside those: with the largest archive they are less than ENTRIES
assert MOST_NAMED + 200 <= ENTRIES


class Shares(NamedTuple):
    """The shares of opponents, relative to each other."""

    named: Mapping[Opponent, float]  # random actions, scripts and the live policy
    archive: float

    @property
    def scripts(self) -> tuple[str, ...]:
        """The names of the scripts among them."""
        return tuple(opponent.name for opponent in self.named if opponent.name is not None)


def parse(words: Iterable[str]) -> Shares:
    """Return the shares of words such as `random=0.25`; refuse others."""
    named, archive = dict[Opponent, float](), 0.0
    for word in words:
        name, _, text = word.partition("=")
        share = _number(text)
        require(share > 0, f"--pool {word!r}: write OPPONENT=SHARE with a number above 0")
        if name == ARCHIVE:
            archive += share
            continue
        require(NAME.fullmatch(name) is not None, f"--pool {name!r}: {RULE}")
        opponent = {"random": RANDOM, "live": LIVE}.get(name) or scripted(name)
        named[opponent] = named.get(opponent, 0.0) + share
    require(len(named) <= MOST_NAMED, f"--pool: at most {MOST_NAMED} opponents beside the archive")
    return Shares(named, archive)


class Pooling:
    """Returns the pool of a run as it is now. For the training thread."""

    def __init__(
        self,
        shares: Shares,
        sampling: Sampling,
        newest: int,
        versions: Callable[[], Iterable[Version]],  # in the archive, the oldest first
        games: Callable[[], Mapping[int, Games]],  # lately, by the opponent's number
    ) -> None:
        self._shares, self._sampling, self._newest = shares, sampling, newest
        self._versions, self._games = versions, games

    def pool(self) -> Pool:
        """Return the pool: while the archive is empty its share goes to the others, else to live.

        Only versions on disk are in it, so after a kill at any moment each can still be fetched.
        """
        shares = self._shares
        versions = list(self._versions()) if shares.archive else []
        if not versions and not shares.named:
            return pool_of({LIVE: 1.0}, 0.0, (), {})
        games = self._games() if versions else {}
        known = {version: games.get(archived(version).number, Games()) for version in versions}
        named, archive = shares.named, shares.archive
        return pool_of(named, archive, versions, known, self._sampling, self._newest)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if number < 1e9 else 0.0
