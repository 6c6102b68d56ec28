"""Which part of the journal the replay is made of: what must stay so that it can be made again."""

from collections import deque

from learner.journal.folder import START, Position


class Coverage:
    """Where the parcels that entered the replay came from, segment by segment."""

    def __init__(self) -> None:
        self.position = START  # everything before it has entered the replay
        self._rows = 0
        self._segments: deque[tuple[int, int]] = deque()  # each with the rows that came before it

    def inserted(self, rows: int, end: Position) -> None:
        """A parcel entered the replay; it ends at this place of the journal."""
        if not self._segments or self._segments[-1][0] != end.segment:
            self._segments.append((end.segment, self._rows))
        self._rows += rows
        self.position = end

    def oldest_segment(self, size: int) -> int:
        """The segment from which on the journal holds the newest `size` rows, which are all that the replay holds."""
        oldest = self._rows - size
        while len(self._segments) > 1 and self._segments[1][1] <= oldest:
            self._segments.popleft()
        return self._segments[0][0] if self._segments else self.position.segment
