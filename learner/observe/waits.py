"""The side that waits, as a sentence for people."""

from collections import Counter, deque

from farflung.learner.core.pacing import Cause, Waiting

LATELY = 20  # looks, four a second, that a sentence is about

SIDES = {
    Cause.WARMUP: "updates wait for rows",
    Cause.ROWS: "updates wait for rows",
    Cause.UPDATES: "collection waits for updates",
}


class Waits:
    """The waits of the last seconds: the side that is held back changes many times a second."""

    def __init__(self) -> None:
        self._causes: deque[Cause] = deque(maxlen=LATELY)

    def look(self, waiting: Waiting) -> str:
        """Add what holds now; return which side waited most, and how often if not always."""
        self._causes.append(waiting.cause)
        sides = Counter(SIDES[cause] for cause in self._causes if cause is not Cause.NONE)
        if not sides:
            return ""
        ((side, times),) = sides.most_common(1)
        if times == len(self._causes):
            return sentence(waiting)
        return f"{side} ({100 * times // len(self._causes)} % of the time)"


def sentence(waiting: Waiting) -> str:
    """Return who waits for how much; empty if neither side does."""
    if waiting.cause in (Cause.WARMUP, Cause.ROWS):
        first = " to start with" if waiting.cause is Cause.WARMUP else ""
        return f"updates wait for {waiting.number} more rows{first}"
    return SIDES.get(waiting.cause, "")
