"""The lines of `each.py`: every attack in four ways, kept in a file as they come."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

BACK = 0.95  # of the steps/s before: the honest actors are back
UNHARMED_MB = 64.0  # by which learner and broker may have grown for the next attack


class Way(NamedTuple):
    """The peers of an attack and the learner that they attack."""

    guarded: bool  # learner and broker have keys, and the peers an allowed one if they need it
    through: bool  # the broker
    peers: int


WAYS = {
    "direct": Way(False, False, 1),
    "with a key": Way(True, False, 1),
    "through a broker": Way(False, True, 1),
    "50 peers": Way(False, False, 50),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One attack, and the honest actors meanwhile."""

    attack: str
    way: str
    before: float  # steps/s of the slower of two honest actors
    during: float
    after: float
    back_s: float | None  # None: not within the time that they have
    learner_mb: float
    broker_mb: float
    join_s: float | None  # None: a client that came meanwhile was not answered
    ended: bool  # learner or broker
    processors: float  # that the attackers used

    @property
    def is_harmed(self) -> bool:
        """Return whether the next attack needs another learner."""
        grown = max(self.learner_mb, self.broker_mb) > UNHARMED_MB
        return self.ended or self.back_s is None or grown


class Lines:
    """The lines of a tree so far, one JSON line each in a file, so that a run can go on."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.found: list[Line] = []
        if path is not None and path.exists():
            self.found = [Line(**json.loads(line)) for line in path.read_text().splitlines()]

    def add(self, line: Line) -> None:
        """Keep a line."""
        self.found.append(line)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(asdict(line)) + "\n")

    def missing(self, attacks: Iterable[str], ways: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield attacks and ways without a line; those of one kind of learner follow each other."""
        known = {(line.attack, line.way) for line in self.found}
        names = sorted(attacks)
        for way in sorted(ways, key=list(WAYS).index):
            yield from ((name, way) for name in names if (name, way) not in known)

    def summary(self) -> list[dict[str, Any]]:
        """Return the lines to publish, in order."""
        order = list(WAYS)
        lines = sorted(self.found, key=lambda line: (line.attack, order.index(line.way)))
        return [
            {
                name: round(value, 2) if isinstance(value, float) else value
                for name, value in asdict(line).items()
            }
            for line in lines
        ]


def told(line: Line) -> str:
    """Return a line in words."""
    join = "no join" if line.join_s is None else f"join {line.join_s:.1f} s"
    back = "not back" if line.back_s is None else f"back after {line.back_s:.0f} s"
    return (
        f"{line.attack} ({line.way}): {line.before:.0f}, {line.during:.0f}, {line.after:.0f} "
        f"steps/s, {back}, +{line.learner_mb:.0f} MB, +{line.broker_mb:.0f} MB, {join}"
        f"{', ENDED' if line.ended else ''}; attackers on {line.processors:.2f} processors"
    )
