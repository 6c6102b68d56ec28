"""The pool of a policy: the opponents that actors draw from, with their probabilities."""

import hashlib
import math
from collections.abc import Collection, Iterable
from typing import Annotated, Literal

from msgspec import Meta, Struct

from farflung.common.data.fields import Name
from farflung.common.data.weights import Version
from farflung.common.process.errors import Refused
from farflung.common.process.text import printable

ENTRIES = 256  # of a pool at most
SUM_ERROR = 1e-6  # of the probabilities: they are rounded when they are written as text
EPOCHS, NUMBERS = 1 << 20, 1 << 32  # of archived versions, so that a double holds their number
UNKNOWN = EPOCHS * NUMBERS  # in place of the number of an opponent that has none
# The metrics of an episode that is a game: the opponent's number, the seat of the live policy, and
# a number that is positive for a win, negative for a loss and 0 for a draw.
OPPONENT, SEAT, OUTCOME = "opponent", "seat", "outcome"
SCRIPT, ARCHIVE = "script:", "archive:"  # in front of a name, of a version

Probability = Annotated[float, Meta(ge=0, le=1)]


class Opponent(Struct, frozen=True, forbid_unknown_fields=True):
    """One opponent: random actions, a script by its name, an archived version, the live policy."""

    kind: Literal["random", "scripted", "archived", "live"]
    name: Name | None = None  # of the script
    version: Version | None = None  # of the archived weights

    def __post_init__(self) -> None:
        """Refuse a script without a name, archived weights without a version, and the reverse."""
        if (self.name is not None) != (self.kind == "scripted"):
            raise ValueError("a scripted opponent has a name, and no other one has")
        if (self.version is not None) != (self.kind == "archived"):
            raise ValueError("an archived opponent has a version, and no other one has")
        if self.version is not None and not (
            1 <= self.version.epoch < EPOCHS and 1 <= self.version.number < NUMBERS
        ):
            raise ValueError(f"no learner archives a version {self.version}")

    @property
    def number(self) -> int:
        """Return the number by which the results of episodes name it: a double holds it.

        It follows from the opponent alone, so no table of numbers has to survive a restart.
        """
        if self.version is not None:
            return self.version.epoch * NUMBERS + self.version.number
        if self.name is not None:
            digest = hashlib.blake2b(self.name.encode(), digest_size=8).digest()
            return 2 + int.from_bytes(digest, "little") % (NUMBERS - 2)
        return 0 if self.kind == "random" else 1

    def __str__(self) -> str:
        if self.version is not None:
            return f"{ARCHIVE}{self.version}"
        return self.kind if self.name is None else f"{SCRIPT}{self.name}"


RANDOM, LIVE = Opponent("random"), Opponent("live")


def scripted(name: str) -> Opponent:
    """Return the opponent that a script plays."""
    return Opponent("scripted", name=name)


def archived(version: Version) -> Opponent:
    """Return the opponent that archived weights play."""
    return Opponent("archived", version=version)


def of_number(number: int, scripts: Iterable[str] = ()) -> Opponent | None:
    """Return the opponent that has a number; None if it is none of these scripts either."""
    for opponent in (RANDOM, LIVE, *map(scripted, scripts)):
        if opponent.number == number:
            return opponent
    epoch, version = divmod(number, NUMBERS)
    return archived(Version(epoch, version)) if 0 < epoch < EPOCHS and version else None


def label(number: int, scripts: Iterable[str] = ()) -> str:
    """Return the words for the opponent with a number."""
    known = of_number(number, scripts)
    if known is not None:
        return str(known)
    return "others" if number == UNKNOWN else f"opponent {number}"


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """An opponent, and how likely an episode is played against it."""

    opponent: Opponent
    probability: Probability


class Pool(Struct, frozen=True, forbid_unknown_fields=True):
    """The opponents of one policy. It is state: a newer pool replaces it as a whole."""

    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        """Refuse a pool that no opponent can be drawn from, and one beyond the bounds."""
        if not 1 <= len(self.entries) <= ENTRIES:
            raise ValueError(f"a pool has 1 to {ENTRIES} opponents, and this has {len(self)}")
        total = math.fsum(entry.probability for entry in self.entries)
        if not abs(total - 1) <= SUM_ERROR:  # NaN is not
            raise ValueError(f"the probabilities of a pool add up to {total:g}, and not to 1")
        numbers = dict[int, str]()
        for entry in self.entries:
            known = numbers.setdefault(entry.opponent.number, str(entry.opponent))
            if known != str(entry.opponent):
                raise ValueError(f"{known} and {entry.opponent} have one number: rename a script")
        if len(numbers) < len(self):
            raise ValueError("an opponent is in the pool twice")

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def versions(self) -> tuple[Version, ...]:
        """The archived versions in it, which an actor must hold before it plays them."""
        found = (entry.opponent.version for entry in self.entries)
        return tuple(version for version in found if version is not None)

    def require_scripts(self, known: Collection[str]) -> None:
        """Refuse a script that is not registered here: code never comes over the network."""
        for entry in self.entries:
            name = entry.opponent.name
            if name is not None and name not in known:
                have = ", ".join(printable(each) for each in sorted(known)) or "none"
                raise Refused(
                    "script",
                    f"the pool names the script {name}, and those registered here are: {have}. "
                    "--import PACKAGE registers yours",
                )
