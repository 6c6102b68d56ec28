"""The credit as a learner enforces it: the numbers that each incarnation may still bring.

An honest actor sends a new number only while it holds fewer than the credit of the newest
acknowledgement that it read. So of all its numbers a learner has at most those that were durable
when one acknowledgement left, and the credit in that one. An allowance is what is left of that.
Credit that was granted is never taken back: what was on its way while credit fell is admitted
whenever it comes, also during a pause.

An incarnation that brings number after number beyond its allowance is granted nothing for a while.
Else each acknowledgement would admit one more of a flood, and the flood would fill the room of all.
"""

from collections import OrderedDict
from typing import Protocol

from farflung.common.net.bucket import Bucket
from farflung.common.protocol.acknowledgements import MOST_MESSAGES, Key

FIRST = 1  # number that an actor sends before its first acknowledgement
EARLIER = MOST_MESSAGES  # that it may have been granted by an earlier start of the learner
KEPT = 4096  # incarnations, those that were granted or brought something last: 200 bytes each
# Numbers beyond the allowance, at once and in the long run. An honest actor has none, except where
# a copy of the run granted them: it sends each again after a second or later.
EXCESS, EXCESS_PER_S = 8, 1.0
WITHHELD_S = 2.0  # that nothing is granted after one more


class Books(Protocol):
    """The numbers that were received: an inbox, or several."""

    @property
    def epoch(self) -> int:
        """The number of this start of the learner within its run."""

    def knows(self, actor: str, incarnation: int) -> bool:
        """Return whether any number of an incarnation was received."""

    def pending(self, actor: str, incarnation: int) -> int:
        """Return how many numbers of an incarnation are not settled yet."""


class _Excess:
    """The numbers that one incarnation brought beyond its allowance."""

    def __init__(self, now: float) -> None:
        self.numbers, self.until = Bucket(EXCESS, now), float("-inf")


class Allowances:
    """The numbers that each incarnation may still bring."""

    def __init__(self, inbox: Books) -> None:
        self._inbox = inbox
        self._left: OrderedDict[Key, int] = OrderedDict()
        self._excess: OrderedDict[Key, _Excess] = OrderedDict()  # by the time of the last one

    def grant(self, key: Key, messages: int) -> None:
        """Note an acknowledgement with this credit, as it leaves."""
        if key in self._left or messages > FIRST:
            left = self._find(key)
            self._left[key] = max(left, messages - self._inbox.pending(*key))

    def covers(self, key: Key) -> bool:
        """Return whether one more number of an incarnation was granted."""
        left = self._left.get(key)  # `spend` makes it the newest
        return (self._find(key) if left is None else left) > 0

    def spend(self, key: Key) -> None:
        """Note a new number."""
        self._left[key] = self._find(key) - 1

    def exceed(self, key: Key, now: float) -> bool:
        """Note a number that is not covered; return whether credit is withheld from now on."""
        excess = self._excess.get(key)
        if excess is None:
            if len(self._excess) >= KEPT:
                self._excess.popitem(last=False)
            excess = self._excess[key] = _Excess(now)
        self._excess.move_to_end(key)
        if not excess.numbers.take(now, EXCESS_PER_S):
            excess.until = now + WITHHELD_S
        return now < excess.until

    def withholds(self, key: Key, now: float) -> bool:
        """Return whether an incarnation is to be granted nothing now."""
        excess = self._excess.get(key)
        return excess is not None and now < excess.until

    def _find(self, key: Key) -> int:
        """Return what is left, and keep it as the newest; one that is not kept may have much."""
        left = self._left.get(key)
        if left is None:
            if len(self._left) >= KEPT:
                self._left.popitem(last=False)
            is_fresh = self._inbox.epoch == 1 and not self._inbox.knows(*key)
            left = FIRST if is_fresh else EARLIER - self._inbox.pending(*key)
            self._left[key] = left
        self._left.move_to_end(key)
        return left
