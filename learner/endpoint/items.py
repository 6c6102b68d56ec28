"""Items: checked messages on their way from the receiver to the part that settles them.

They pass through a log, which is the journal or nothing at all, and wait in a queue for training.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeGuard, TypeVar

from farflung.common.data.parcel import Parcel
from farflung.common.data.weights import Weights
from farflung.common.protocol.wire import Envelope
from farflung.learner.storage.journal.record import Position

TAKEN = ""  # the outcome of an item that was not refused


class RefusedNumber(NamedTuple):
    """The content of a numbered message that was refused: its sender receives the reason."""

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
        """Note the outcome for the sender: taken, or a reason. Call it once, from any thread."""
        self.settlements.note(self.envelope, outcome)


AnyItem = Item[Parcel | RefusedNumber]


def holds_parcel(item: Item[Any]) -> TypeGuard[Item[Parcel]]:
    """Return True if the item's content is a parcel."""
    return isinstance(item.content, Parcel)


def parcels_of(items: Iterable[Item[Any]]) -> list[Item[Parcel]]:
    """Return the items that hold a parcel, in order."""
    return [item for item in items if holds_parcel(item)]


class ItemQueue:
    """The queue in front of training. Waiting rows count against those that may still be sent."""

    def __init__(self) -> None:
        self.room = 0  # rows that pacing can take in, as training last saw it; 0 pauses collection
        self._parcels: deque[Item[Parcel]] = deque()
        self._rows = 0
        self._changed = threading.Condition()

    @property
    def parcels(self) -> int:
        """The number of waiting parcels."""
        return len(self._parcels)

    @property
    def free(self) -> int:
        """Rows that actors may still send."""
        return max(0, self.room - self._rows)

    def put(self, items: Sequence[Item[Parcel]]) -> None:
        """Append items.

        Training is woken once. If each item woke it, the two threads would take turns at the
        interpreter's lock.
        """
        with self._changed:
            self._parcels.extend(items)
            self._rows += sum(item.content.rows for item in items)
            self._changed.notify()

    def rows(self) -> Iterator[int]:
        """Yield the rows of each waiting parcel in order, without taking any."""
        for index in range(len(self._parcels)):  # other threads only append meanwhile
            yield self._parcels[index].content.rows

    def take_parcels(self, count: int) -> list[Item[Parcel]]:
        """Take so many parcels from the head, for good."""
        with self._changed:
            taken = [self._parcels.popleft() for _ in range(count)]
            rows = sum(item.content.rows for item in taken)
            self._rows -= rows
            # At once: until training notes the room that there is now, it is not granted twice.
            self.room -= rows
            return taken

    def wait(self, timeout_s: float) -> None:
        """Wait until there is an item, or the time is over."""
        with self._changed:
            if not self._parcels:
                self._changed.wait(timeout_s)


Deliver = Callable[[list[Item[Parcel]]], None]


class ItemLog(Protocol):
    """A log of items. `Journal` writes them to disk; `Unlogged` keeps nothing."""

    problem: str  # a sentence, while items cannot be kept
    waiting_rows: int  # rows that are not delivered yet

    def append(self, items: Sequence[AnyItem]) -> None:
        """Keep a burst of items, then deliver its parcels and settle all of them."""
        ...

    def mark(self, weights: Weights) -> None:
        """Note that a version was published."""
        ...

    def check(self) -> None:
        """Raise the error that ended the log, if one did."""
        ...

    def drain(self, timeout_s: float) -> bool:
        """Wait until all is kept, the log has failed or the time is over; return True if kept."""
        ...

    def close(self) -> None:
        """Keep what waits, and end."""
        ...


class Unlogged:
    """The log of a run without durability: it delivers and settles every item at once."""

    problem, waiting_rows = "", 0

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver

    def append(self, items: Sequence[AnyItem]) -> None:
        """Deliver the parcels, and settle all items."""
        self._deliver(parcels_of(items))
        for item in items:
            item.frame = b""
            item.settle()

    def mark(self, weights: Weights) -> None:
        """Note nothing."""

    def check(self) -> None:
        """Raise nothing."""

    def drain(self, timeout_s: float) -> bool:
        """Return True: nothing waits here."""
        return True

    def close(self) -> None:
        """Close nothing."""
