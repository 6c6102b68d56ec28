"""Which part of the journal the replay is made of: what must stay so that it can be made again, and how to tell that it is the same."""

import hashlib
from collections import deque
from dataclasses import dataclass

from farflung.learner.storage.journal.folder import START, Position


@dataclass(slots=True)
class Part:
    """What one segment brought."""

    segment: int
    rows_before: int
    digest: int  # of its parcels so far


class ReplayExtent:
    """Where the parcels that entered the replay came from, segment by segment."""

    def __init__(self) -> None:
        self.position = START  # everything before it has entered the replay
        self._rows = 0
        self._parts: deque[Part] = deque()

    def inserted(self, rows: int, end: Position) -> None:
        """A parcel entered the replay; it ends at this place of the journal."""
        if not self._parts or self._parts[-1].segment != end.segment:
            self._parts.append(Part(end.segment, self._rows, 0))
        self._parts[-1].digest = end.digest
        self._rows += rows
        self.position = end

    def oldest_segment(self, size: int) -> int:
        """The segment from which on the journal holds the newest `size` rows, which are all that the replay holds."""
        oldest = self._rows - size
        while len(self._parts) > 1 and self._parts[1].rows_before <= oldest:
            self._parts.popleft()
        return self._parts[0].segment if self._parts else self.position.segment

    def digest(self, size: int) -> str:
        """A hash of a replay that holds the newest `size` rows: of which parcels it was made, each by its checksum, in which order.

        Rows are a function of the parcels before them, so the same hash means the same rows in the same order. It costs nothing to
        keep: the rows themselves may be gigabytes.
        """
        first = self.oldest_segment(size)
        made_of = (size, first, [(part.segment, part.digest) for part in self._parts])
        return hashlib.blake2b(repr(made_of).encode(), digest_size=16).hexdigest()
