"""The place where items are kept before they count: the journal, or nothing at all."""

from collections.abc import Callable, Sequence
from typing import Protocol

from farflung.common.data.parcel import Parcel
from farflung.common.data.weights import Weights
from farflung.learner.endpoint.item import AnyItem, Item, parcels_of

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
        """Wait until all is kept or the time is over; return whether all is kept."""
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
