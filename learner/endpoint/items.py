"""Items: checked messages on their way from the receiver to the part that settles them.

They pass through a log, which is the journal or nothing at all, and wait in a queue for training.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeGuard, TypeVar

from farflung.common.data.parcel import Parcel
from farflung.common.data.weights import Weights
from farflung.common.protocol.messages import Command, Numbered
from farflung.common.protocol.roster import Member
from farflung.common.protocol.shared_buffer import Load
from farflung.common.protocol.tensors import Gradients
from farflung.common.protocol.wire import Kind
from farflung.learner.storage.journal.record import Position

PARCELS = frozenset({Kind.PARCEL})  # the kinds that a learner takes if it takes only these
TAKEN = ""  # the outcome of an item that was not refused


@dataclass(frozen=True, slots=True)
class RefusedNumber:
    """The content of a numbered message that was refused: its sender receives the reason."""

    rows: ClassVar[int] = 0
    reason: str
    survives: bool = True  # in the log; refused gradients do not


Content = Parcel | Gradients | Command | RefusedNumber
ContentT = TypeVar("ContentT", bound=Content)
ContentT_co = TypeVar("ContentT_co", bound=Content, covariant=True)


class Settlements:
    """The outcomes of items: noted by any thread, booked by the thread that owns the endpoint."""

    def __init__(self) -> None:
        self.wake: Callable[[], None] = lambda: None  # called by a thread that notes an outcome
        self._outcomes: deque[tuple[Numbered, str]] = deque()
        self._woken = False

    def note(self, envelope: Numbered, outcome: str) -> None:
        """Note an outcome. Of several that wait only the first wakes the other thread."""
        self._outcomes.append((envelope, outcome))
        if not self._woken:
            self._woken = True
            self.wake()

    def take(self) -> list[tuple[Numbered, str]]:
        """Return all outcomes that wait."""
        self._woken = False  # before the look: an outcome that is noted during it wakes again
        return [self._outcomes.popleft() for _ in range(len(self._outcomes))]


@dataclass(slots=True, eq=False)
class Item(Generic[ContentT_co]):
    """A checked message that counts once, until the part that is responsible for it settles it.

    The log settles parcels and refused numbers once they are durable, the loop gradients once they
    are applied, and the executor of commands a command once it is done.
    """

    envelope: Numbered
    content: ContentT_co
    frame: bytes | bytearray | memoryview  # as received; dropped once the log has it
    settlements: Settlements
    end: Position | None = None  # of its record, once a journal has it
    by: str = ""  # who asks, of a command: for the log
    load: Load | None = None  # in the buffer that peers share, until training takes the item

    @property
    def rows(self) -> int:
        """Rows that it stands for: credit counts them."""
        return self.content.rows

    def settle(self, outcome: str = TAKEN) -> None:
        """Note the outcome for the sender: taken, or a reason. Call it once, from any thread."""
        self.settlements.note(self.envelope, outcome)


LoggedItem = Item[Parcel | RefusedNumber]


def is_logged(item: Item[Any]) -> TypeGuard[LoggedItem]:
    """Return True if the item must survive this process: parcels and their refused numbers."""
    content = item.content
    if isinstance(content, Parcel):
        return True
    return isinstance(content, RefusedNumber) and content.survives


def holds_parcel(item: Item[Any]) -> TypeGuard[Item[Parcel]]:
    """Return True if the item's content is a parcel."""
    return isinstance(item.content, Parcel)


def by_place(items: Sequence[Item[Parcel]]) -> list[Item[Parcel]]:
    """Return the parcels of a round in the order of their actors' indices, then their numbers.

    Each incarnation of an actor stays together, the first to arrive before the others. Parcels
    without a place, such as evaluations, come last, as they arrived.
    """
    first: dict[tuple[str, int], int] = {}
    for arrival, item in enumerate(items):
        first.setdefault((item.envelope.actor, item.envelope.incarnation), arrival)

    def key(item: Item[Parcel]) -> tuple[float, int, int]:
        envelope, place = item.envelope, item.content.place
        if place is None:
            return math.inf, 0, 0
        return place.actor_index, first[envelope.actor, envelope.incarnation], envelope.sequence

    return sorted(items, key=key)


class Lane(Generic[ContentT]):
    """The waiting items of one kind, in order. Training takes them; other threads append."""

    def __init__(self, taken: Callable[[list[Item[ContentT]]], None]) -> None:
        self._taken = taken  # called with the items that leave
        self._items: deque[Item[ContentT]] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item[ContentT]]:
        """Iterate over the items in order, without taking any; other threads may append."""
        for index in range(len(self._items)):
            yield self._items[index]

    def append(self, item: Item[ContentT]) -> None:
        """Append an item."""
        self._items.append(item)

    def put_back(self, item: Item[ContentT]) -> None:
        """Put an item before all others. Only the thread that takes them may."""
        self._items.appendleft(item)

    def rows(self) -> Iterator[int]:
        """Return the rows of each item in order."""
        return (item.content.rows for item in self)

    def take(self, count: int) -> list[Item[ContentT]]:
        """Take so many items from the head, for good."""
        taken = [self._items.popleft() for _ in range(count)]
        self._taken(taken)
        return taken


class ItemQueue:
    """The queue in front of training, a lane for each kind.

    Waiting rows, of parcels and of gradients, count against those that may still be sent.
    """

    def __init__(self, release: Callable[[Load], None] = lambda load: None) -> None:
        self._release = release  # called with the load of each item that training takes
        self.room = 0  # rows that pacing can take in, as training last saw it; 0 pauses collection
        self.parcels = Lane[Parcel](self._take)
        self.gradients = Lane[Gradients](self._take)
        self.commands = Lane[Command](self._take)
        self._lanes: dict[type, Lane[Any]] = {
            Parcel: self.parcels,
            Gradients: self.gradients,
            Command: self.commands,
        }
        self._rows = 0
        self._arrived = False  # something came that training has not looked at
        self._changed = threading.Condition()

    @property
    def free(self) -> int:
        """Rows that actors may still send."""
        return max(0, self.room - self._rows)

    def put(self, items: Sequence[Item[Any]]) -> None:
        """Append items, each to the lane of its kind.

        Training is woken once. If each item woke it, the two threads would take turns at the
        interpreter's lock.
        """
        with self._changed:
            for item in items:
                self._lanes[type(item.content)].append(item)
            self._count(items)

    def put_back(self, items: Sequence[Item[Any]]) -> None:
        """Let items wait that came before all that wait already, in their order."""
        with self._changed:
            for item in reversed(items):
                self._lanes[type(item.content)].put_back(item)
            self._count(items)

    def wait(self, timeout_s: float) -> None:
        """Wait until an item has come since the last wait or take, or the time is over.

        An item may wait for others, as gradients do: so those that are here do not end a wait.
        """
        with self._changed:
            if not self._arrived:
                self._changed.wait(timeout_s)
            self._arrived = False

    def _count(self, items: Sequence[Item[Any]]) -> None:
        self._rows += sum(item.content.rows for item in items)
        self._arrived = True
        self._changed.notify()

    def _take(self, items: Sequence[Item[Any]]) -> None:
        rows = sum(item.content.rows for item in items)
        for item in items:
            if item.load is not None:
                self._release(item.load)
        with self._changed:
            self._rows -= rows
            # At once: until training notes the room that there is now, it is not granted twice.
            self.room -= rows
            self._arrived = False


Deliver = Callable[[list[Item[Parcel]]], None]


class ItemLog(Protocol):
    """A log of items that must survive. `Journal` writes them to disk; `Unlogged` keeps nothing."""

    problem: str  # a sentence, while items cannot be kept
    waiting_rows: int  # rows that are not delivered yet

    @property
    def disk_s(self) -> float:
        """The seconds so far in which a disk was written, synced, or waited for."""
        ...

    def append(self, items: Sequence[LoggedItem]) -> None:
        """Keep a burst of items, then deliver its parcels and settle all of them."""
        ...

    def mark(self, weights: Weights) -> None:
        """Note that a version was published."""
        ...

    def note_place(self, member: Member) -> None:
        """Note the place of an actor that plays rounds, before any parcel of it."""
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

    problem, waiting_rows, disk_s = "", 0, 0.0

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver

    def append(self, items: Sequence[LoggedItem]) -> None:
        """Deliver the parcels, and settle all items."""
        self._deliver([item for item in items if holds_parcel(item)])
        for item in items:
            item.frame = b""
            item.settle()

    def mark(self, weights: Weights) -> None:
        """Note nothing."""

    def note_place(self, member: Member) -> None:
        """Note nothing."""

    def check(self) -> None:
        """Raise nothing."""

    def drain(self, timeout_s: float) -> bool:
        """Return True: nothing waits here."""
        return True

    def close(self) -> None:
        """Close nothing."""
