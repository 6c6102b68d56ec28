"""What a learner knows of one life of one actor: which of its numbers are kept, which are being written, which were refused."""

from dataclasses import dataclass, field

from farflung.common.protocol.messages import Ack, Credit

WINDOW = 4096  # numbers from an actor's base to its newest: all that must be remembered of a life one by one
TOLD = 256  # missing numbers in one line; refused ones likewise


@dataclass(slots=True)
class Incarnation:
    """One incarnation of one actor. Received is what is kept (up to `kept`, and `beyond` it) and what is `pending`."""

    base: int = 1  # the lowest number that the actor still holds, by its own word
    kept: int = 0  # every number up to it is durable, or no longer held by the actor
    beyond: set[int] = field(default_factory=set)  # durable numbers above a hole
    pending: dict[int, str] = field(
        default_factory=dict
    )  # received, not yet durable: why it is refused, or ""
    refused: dict[int, str] = field(
        default_factory=dict
    )  # durable refusals that the actor may not know of yet
    heard_at: float = float("-inf")
    told: Credit | None = None  # the credit of its last line; None if there is more to tell since

    def has(self, number: int) -> bool:
        """Whether the number was received before, durable or not."""
        return number <= self.kept or number in self.pending or number in self.beyond

    def commit(self, number: int) -> None:
        """A pending number is durable now: it may be told."""
        reason = self.pending.pop(number)
        self.told = None
        if reason and number >= self.base:
            self.refused[number] = reason
        if number > self.kept:
            self.beyond.add(number)
            self._rise()

    def rebase(self, base: int) -> int:
        """The actor holds nothing below `base` any more: forget what was only kept for telling it. Gives how many never arrived."""
        if base <= self.base:
            return 0
        self.base = base
        self.refused = {number: reason for number, reason in self.refused.items() if number >= base}
        if base - 1 <= self.kept:
            return 0
        known = sum(
            self.kept < number < base
            for numbers in (self.beyond, self.pending)
            for number in numbers
        )
        lost = base - 1 - self.kept - known
        self.kept = base - 1
        self.beyond = {number for number in self.beyond if number >= base}
        self._rise()
        return lost

    def line(self, actor: str, incarnation: int, credit: Credit) -> Ack:
        """What the actor is told. Everything up to `highest` counts as kept unless it is named, so `highest` stays below

        the first number that is being written, and below what would be named if there were room for it.
        """
        highest, refused = self.kept, sorted(self.refused)
        missing: list[int] = []
        limit = refused[TOLD] if len(refused) > TOLD else self.kept + WINDOW + 1
        for number in range(self.kept + 1, max(self.beyond, default=0) + 1):
            if number in self.beyond:
                highest = number
            elif number in self.pending or len(missing) == TOLD:
                break
            else:
                missing.append(number)
        highest = min(highest, limit - 1)
        named = tuple((number, self.refused[number]) for number in refused[:TOLD])
        return Ack(
            actor,
            incarnation,
            highest,
            tuple(number for number in missing if number < highest),
            named,
            credit,
        )

    def _rise(self) -> None:
        while self.kept + 1 in self.beyond:
            self.kept += 1
            self.beyond.remove(self.kept)
