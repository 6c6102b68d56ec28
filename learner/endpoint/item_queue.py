"""The queue in front of training: checked items wait here until the schedule takes them."""

import threading
from collections import deque
from collections.abc import Iterator, Sequence

from farflung.common.data.parcel import Parcel
from farflung.learner.endpoint.item import Item


class ItemQueue:
    """A queue that credit bounds: waiting rows count against those that actors may still send."""

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
            # At once: until training says what room there is now, it must not be granted twice.
            self.room -= rows
            return taken

    def wait(self, timeout_s: float) -> None:
        """Wait until there is an item, or the time is over."""
        with self._changed:
            if not self._parcels:
                self._changed.wait(timeout_s)
