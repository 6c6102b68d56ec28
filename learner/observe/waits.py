"""The side that waited most during the last seconds."""

from collections import Counter, deque

from farflung.learner.core.pacing import Cause, Waiting
from farflung.learner.observe.status import WaitingStatus

LATELY = 20  # looks, four a second


class Waits:
    """A memory of the last looks: the side that is held back changes many times a second."""

    def __init__(self) -> None:
        self._causes: deque[Cause] = deque(maxlen=LATELY)

    def look(self, now: Waiting) -> WaitingStatus:
        """Add the present wait; return the most frequent one."""
        self._causes.append(now.cause)
        counts = Counter(cause for cause in self._causes if cause is not Cause.NONE)
        if not counts:
            return WaitingStatus()
        ((cause, times),) = counts.most_common(1)
        number = now.number if cause is now.cause else 0
        return WaitingStatus(cause, number, times / len(self._causes))
