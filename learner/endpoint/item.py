"""Items: checked messages on their way from the receiver to the part that settles them."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeGuard, TypeVar

from farflung.common.data.parcel import Parcel
from farflung.common.protocol.wire import Envelope
from farflung.learner.storage.journal.record import Position

TAKEN = ""  # the outcome of an item that was not refused


class RefusedNumber(NamedTuple):
    """The content of a numbered message that was refused: its actor is told the reason."""

    reason: str


ContentT_co = TypeVar("ContentT_co", bound=Parcel | RefusedNumber, covariant=True)


class Settlements:
    """The outcomes of items: noted by any thread, booked by the thread that owns the endpoint."""

    def __init__(self) -> None:
        self.wake: Callable[[], None] = lambda: None  # called by a thread that notes an outcome
        self._outcomes: deque[tuple[Envelope, str]] = deque()
        self._woken = False

    def note(self, envelope: Envelope, outcome: str) -> None:
        """Note an outcome. Of several that wait only the first wakes the other thread."""
        self._outcomes.append((envelope, outcome))
        if not self._woken:
            self._woken = True
            self.wake()

    def take(self) -> list[tuple[Envelope, str]]:
        """Return all outcomes that wait."""
        self._woken = False  # before the look: an outcome that is noted during it wakes again
        return [self._outcomes.popleft() for _ in range(len(self._outcomes))]


@dataclass(slots=True, eq=False)
class Item(Generic[ContentT_co]):
    """A checked message that counts once, until the part that is responsible for it settles it.

    The log settles parcels and refused numbers once they are durable.
    """

    envelope: Envelope
    content: ContentT_co
    frame: bytes | bytearray | memoryview  # as received; dropped once the log has it
    settlements: Settlements
    end: Position | None = None  # of its record, once a journal has it

    def settle(self, outcome: str = TAKEN) -> None:
        """Let the actor be told: taken, or refused for a reason. Call it once, from any thread."""
        self.settlements.note(self.envelope, outcome)


AnyItem = Item[Parcel | RefusedNumber]


def holds_parcel(item: Item[Any]) -> TypeGuard[Item[Parcel]]:
    """Return True if the item's content is a parcel."""
    return isinstance(item.content, Parcel)


def parcels_of(items: Iterable[Item[Any]]) -> list[Item[Parcel]]:
    """Return the items that hold a parcel, in order."""
    return [item for item in items if holds_parcel(item)]
