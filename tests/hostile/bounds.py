"""The memory that a learner may take under any attack: a formula of the bounds in its code."""

from typing import NamedTuple

from hostile.victim import Victim

from farflung.common.protocol.acknowledgements import TOTAL_BYTES

AT_REST = "at rest"


class Bounds(NamedTuple):
    """Terms in megabytes, by name."""

    terms: dict[str, float]

    @property
    def most_mb(self) -> float:
        """The sum."""
        return sum(self.terms.values())

    @property
    def formula(self) -> str:
        """Return the terms and their sum in a sentence."""
        terms = " + ".join(f"{mb:.0f} MB {name}" for name, mb in self.terms.items())
        return f"memory of the learner: {terms} = {self.most_mb:.0f} MB at most"


def bounds(target: Victim) -> Bounds:
    """Return the bounds of a learner that is at rest now."""
    return Bounds({AT_REST: target.learner.own_mb(), "parcels": TOTAL_BYTES / 1e6})
