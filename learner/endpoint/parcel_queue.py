"""Between the network thread and training: checked parcels wait here until pacing lets them into the replay."""

import threading
from collections import deque
from collections.abc import Iterator, Sequence

from farflung.common.data.parcel import Parcel
from farflung.learner.storage.journal.record import Position
from farflung.learner.storage.replay_extent import ReplayExtent


class ParcelQueue:
    """A queue that credit bounds: what waits here counts against the rows that actors may still send."""

    def __init__(self) -> None:
        self.room = 0  # rows that pacing can take in, as training last saw it; 0 pauses collection
        self.coverage = ReplayExtent()
        self._parcels: deque[tuple[Parcel, Position]] = deque()
        self._rows = 0
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._parcels)

    @property
    def free(self) -> int:
        """Rows that actors may still send."""
        return max(0, self.room - self._rows)

    def put(self, parcels: Sequence[tuple[Parcel, Position]]) -> None:
        """Take over parcels, each with the place in the journal where it ends.

        Training is woken once: woken for each, it and the giver would take turns at the interpreter's lock.
        """
        with self._changed:
            self._parcels.extend(parcels)
            self._rows += sum(parcel.rows for parcel, _ in parcels)
            self._changed.notify()

    def rows(self) -> Iterator[int]:
        """Yield the rows of each parcel in order, without taking any."""
        for index in range(len(self._parcels)):  # other threads only append meanwhile
            yield self._parcels[index][0].rows

    def take(self, count: int) -> list[Parcel]:
        """Take so many parcels from the head, for good."""
        with self._changed:
            taken = [self._parcels.popleft() for _ in range(count)]
            for parcel, end in taken:
                self.coverage.inserted(parcel.rows, end)
            rows = sum(parcel.rows for parcel, _ in taken)
            self._rows -= rows
            # At once: until training says anew what room there is, it must not be granted twice.
            self.room -= rows
            return [parcel for parcel, _ in taken]

    def wait(self, timeout_s: float) -> None:
        """Until there is a parcel, or so long."""
        with self._changed:
            if not self._parcels:
                self._changed.wait(timeout_s)
