"""Between the network thread and training: checked parcels wait here until pacing lets them into the replay."""

import threading
from collections import deque

from common.trajectory import Parcel


class Inlet:
    """A queue that credit bounds: what waits here counts against the rows that actors may still send."""

    def __init__(self) -> None:
        self.room = 0  # rows that pacing can take in, as training last saw it; 0 pauses collection
        self._parcels: deque[Parcel] = deque()
        self._rows = 0
        self._changed = threading.Condition()

    @property
    def free(self) -> int:
        """Rows that actors may still send."""
        return max(0, self.room - self._rows)

    def put(self, parcel: Parcel) -> None:
        """Take a parcel over from the network."""
        with self._changed:
            self._parcels.append(parcel)
            self._rows += parcel.rows
            self._changed.notify()

    def first(self) -> Parcel | None:
        """The parcel whose turn it is, still in the queue."""
        return self._parcels[0] if self._parcels else None

    def take(self) -> Parcel:
        """The first parcel, for good."""
        with self._changed:
            parcel = self._parcels.popleft()
            self._rows -= parcel.rows
            self.room -= parcel.rows  # at once: until training says anew what room there is, it must not be granted twice
            return parcel

    def wait(self, timeout_s: float) -> None:
        """Until there is a parcel, or so long."""
        with self._changed:
            if not self._parcels:
                self._changed.wait(timeout_s)
