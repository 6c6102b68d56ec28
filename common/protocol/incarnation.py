"""One incarnation of one actor: its numbers that are durable, being written, or refused."""

from dataclasses import dataclass, field
from typing import NamedTuple

WINDOW = 4096  # numbers from an actor's base to its newest: the most that are kept one by one
# From the highest number that a learner has to a base that it believes. A power failure can take
# from a run with `--durability process` what an actor sent in the last minute.
AHEAD = 1 << 16
NAMED = 256  # missing numbers in one acknowledgement; refused ones likewise


class Received(NamedTuple):
    """The numbers of an incarnation that a learner has: the core of an acknowledgement."""

    highest: int  # every number up to it counts, except those that are named here
    missing: tuple[int, ...] = ()
    refused: tuple[tuple[int, str], ...] = ()


@dataclass(slots=True)
class Incarnation:
    """The numbers received: the contiguous ones, those above a hole, and the pending ones."""

    base: int = 1  # the lowest number that the actor still holds, by its own word
    contiguous: int = 0  # every number up to it is durable, or no longer held by the actor
    out_of_order: set[int] = field(default_factory=set)  # durable numbers above a hole
    # Received and not yet durable: the reason of its refusal, or "".
    pending: dict[int, str] = field(default_factory=dict)
    # Durable refusals that the actor may not know of yet.
    refused: dict[int, str] = field(default_factory=dict)

    @property
    def is_blank(self) -> bool:
        """There is nothing to remember of it: what is pending, its sender still holds."""
        return self.base == 1 and not (self.contiguous or self.out_of_order or self.refused)

    @property
    def highest(self) -> int:
        """The highest number that was received."""
        return max((self.contiguous, *self.out_of_order, *self.pending))

    def believes(self, base: int) -> bool:
        """Return whether an honest actor can hold nothing below `base`.

        It holds what the learner does not have, except the few numbers that it gave up.
        """
        return base <= self.contiguous + 1 or base <= self.highest + 1 + AHEAD

    def has(self, number: int) -> bool:
        """Return whether the number was received before, durable or not."""
        return number <= self.contiguous or number in self.pending or number in self.out_of_order

    def commit(self, number: int) -> None:
        """Count a pending number as durable: it may be acknowledged."""
        reason = self.pending.pop(number)
        if reason and number >= self.base:
            self.refused[number] = reason
        if number > self.contiguous:
            self.out_of_order.add(number)
            self._extend()

    def rebase(self, base: int) -> int:
        """Forget the refusals below `base`: the actor knows them, since it holds nothing there.

        Return how many numbers below it never arrived: it gave them up, by its own word.
        """
        if base <= self.base:
            return 0
        self.base = base
        self.refused = {number: reason for number, reason in self.refused.items() if number >= base}
        if base - 1 <= self.contiguous:
            return 0
        known = sum(
            self.contiguous < number < base
            for numbers in (self.out_of_order, self.pending)
            for number in numbers
        )
        lost = base - 1 - self.contiguous - known
        self.contiguous = base - 1
        self.out_of_order = {number for number in self.out_of_order if number >= base}
        self._extend()
        return lost

    def received(self) -> Received:
        """Return the numbers that may be acknowledged.

        Everything up to `highest` counts unless it is named. So `highest` stays below the first
        number that is being written, and below those that would be named if there were room.
        """
        highest, refused = self.contiguous, sorted(self.refused)
        missing: list[int] = []
        limit = refused[NAMED] if len(refused) > NAMED else self.contiguous + WINDOW + 1
        for number in range(self.contiguous + 1, max(self.out_of_order, default=0) + 1):
            if number in self.out_of_order:
                highest = number
            elif number in self.pending or len(missing) == NAMED:
                break
            else:
                missing.append(number)
        highest = min(highest, limit - 1)
        named = tuple((number, self.refused[number]) for number in refused[:NAMED])
        return Received(highest, tuple(number for number in missing if number < highest), named)

    def _extend(self) -> None:
        while self.contiguous + 1 in self.out_of_order:
            self.contiguous += 1
            self.out_of_order.remove(self.contiguous)
