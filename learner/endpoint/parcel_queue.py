"""Between the network thread and training: checked parcels wait here until pacing lets them into the replay."""

import threading
from collections import deque
from collections.abc import Sequence

from farflung.common.data.parcel import Parcel
from farflung.learner.storage.journal.folder import Position
from farflung.learner.storage.replay_extent import ReplayExtent


class ParcelQueue:
    """A queue that credit bounds: what waits here counts against the rows that actors may still send."""

    def __init__(self) -> None:
        self.room = 0  # rows that pacing can take in, as training last saw it; 0 pauses collection
        self.coverage = ReplayExtent()
        self._parcels: deque[tuple[Parcel, Position]] = deque()
        self._rows = 0
        self._changed = threading.Condition()

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

    def first(self) -> Parcel | None:
        """The parcel whose turn it is, still in the queue."""
        return self._parcels[0][0] if self._parcels else None

    def take(self) -> Parcel:
        """The first parcel, for good."""
        with self._changed:
            parcel, end = self._parcels.popleft()
            self._rows -= parcel.rows
            self.room -= (
                parcel.rows
            )  # at once: until training says anew what room there is, it must not be granted twice
            self.coverage.inserted(parcel.rows, end)
            return parcel

    def wait(self, timeout_s: float) -> None:
        """Until there is a parcel, or so long."""
        with self._changed:
            if not self._parcels:
                self._changed.wait(timeout_s)
