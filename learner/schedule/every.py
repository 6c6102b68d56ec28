"""Intervals such as `500 updates`: how far training goes on from one time to the next."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from farflung.common.process.errors import UsageError

UNITS = ("episodes", "updates", "steps")
SYNTAX = re.compile(r"\s*(\d+(?:\.\d+)?(?:e\d{1,2})?)\s+([a-z]+)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Every:
    """A number of episodes, updates or steps."""

    number: int
    unit: str

    def due(self, counts: Mapping[str, int], before: Mapping[str, int]) -> bool:
        """Return whether a multiple of the interval was reached between two moments.

        So the times do not shift where a learner is resumed, or looks late.
        """
        return counts[self.unit] // self.number > before.get(self.unit, 0) // self.number


def parse(flag: str, text: str) -> Every | None:
    """Return the interval in a text, or None for an empty one."""
    if not text.strip():
        return None
    found = SYNTAX.fullmatch(text)
    number, unit = (float(found[1]), found[2].lower()) if found else (0.0, "")
    if unit not in UNITS or number < 1 or number % 1:
        raise UsageError(
            f"{flag} {text!r}: write a whole number and one of {', '.join(UNITS)}, such as "
            "'500 updates'"
        )
    return Every(int(number), unit)
