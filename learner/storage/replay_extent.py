"""The part of the journal that the replay is made of."""

import hashlib
from collections import deque

from farflung.learner.storage.journal.record import BEGINNING, Position


class ReplayExtent:
    """The segments that the replay's rows came from.

    It says which segments must stay so that the replay can be made again, and a hash by which
    the same replay is recognised.
    """

    def __init__(self) -> None:
        self.position = BEGINNING  # all parcels before it have entered the replay
        self._rows = 0  # inserted so far
        self._segments: deque[tuple[int, int]] = deque()  # number, rows inserted before it
        self._digests: dict[int, int] = {}  # by segment, of its parcels so far

    def inserted(self, rows: int, end: Position) -> None:
        """Count a parcel that entered the replay and ends at this position."""
        if end.segment not in self._digests:
            self._segments.append((end.segment, self._rows))
        self._digests[end.segment] = end.digest
        self._rows += rows
        self.position = end

    def oldest_segment(self, size: int) -> int:
        """Return the first segment that holds some of the newest `size` rows.

        Those are all that the replay holds; older segments are forgotten.
        """
        oldest = self._rows - size
        while len(self._segments) > 1 and self._segments[1][1] <= oldest:
            del self._digests[self._segments.popleft()[0]]
        return self._segments[0][0] if self._segments else self.position.segment

    def digest(self, size: int) -> str:
        """Return a hash of the replay of the newest `size` rows.

        It is made of the parcels' checksums in their order. Rows are a function of the parcels
        before them, so the same hash means the same rows. The rows may be gigabytes; this hash
        costs nothing to keep.
        """
        first = self.oldest_segment(size)
        digests = [(segment, self._digests[segment]) for segment, _ in self._segments]
        return hashlib.blake2b(repr((size, first, digests)).encode(), digest_size=16).hexdigest()
