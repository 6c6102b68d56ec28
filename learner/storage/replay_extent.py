"""The part of the journal that the replay is made of, as a checkpoint records it."""

import hashlib
from collections import deque
from collections.abc import Sequence
from typing import Any

from farflung.common.data.parcel import Parcel
from farflung.learner.endpoint.items import Item
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.record import BEGINNING, Position
from farflung.learner.storage.manifest import (
    POSITION,
    REPLAY_FROM,
    REPLAY_HASH,
    REPLAY_ROWS,
    TOTALS,
)


class ReplayExtent:
    """The segments that the replay's rows came from.

    It determines the segments that must stay so that the replay can be made again, and a hash that
    identifies the replay.
    """

    def __init__(self) -> None:
        self.position = BEGINNING  # all parcels before it have entered the replay
        self.rows = 0  # inserted so far
        # Number, and the rows up to the last one in the segments before it.
        self._segments: deque[tuple[int, int]] = deque()
        self._whole = 0  # rows up to the last one of the newest parcel, or of its round
        self._digests: dict[int, int] = {}  # by segment, of its parcels so far

    def inserted(self, rows: int, end: Position, together: int = 0) -> None:
        """Count a parcel that entered the replay and ends at this position.

        Call it in the order of the journal. The parcels of a round enter in another order: then
        `together` is their last row, and all of them are needed until that one is old.
        """
        if end.segment not in self._digests:
            self._segments.append((end.segment, self._whole))
        self._digests[end.segment] = end.digest
        self.rows += rows
        if rows:  # evaluations enter with a round or between two, and must make no difference
            self._whole = together or self.rows
        self.position = end

    def entered(self, items: Sequence[Item[Parcel]], in_order: bool) -> None:
        """Count items, in the order of the journal, that entered the replay together.

        `in_order` is True if they entered in the order of a round, and not in this one.
        """
        together = self.rows + sum(item.rows for item in items) if in_order else 0
        for item in items:
            if item.end is not None:
                self.inserted(item.rows, item.end, together)

    def oldest_segment(self, size: int) -> int:
        """Return the first segment that holds some of the newest `size` rows.

        Those are all that the replay holds; older segments are forgotten.
        """
        oldest = self.rows - size
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
        return replay_hash(size, first, digests)


def replay_hash(size: int, first: int, digests: list[tuple[int, int]]) -> str:
    """Return the hash of a replay: rows, first segment, and each segment's digest of its parcels.

    The newest segment's digest ends with the newest parcel.
    """
    return hashlib.blake2b(repr((size, first, digests)).encode(), digest_size=16).hexdigest()


def journal_facts(journal: Journal, extent: ReplayExtent, replay_size: int) -> dict[str, Any]:
    """Return the facts about the journal that belong to a checkpoint taken now.

    They are its position in the journal, the first segment that its replay needs, the rows and a
    hash of that replay, and the totals that begin the newest segment, in case those are damaged
    later.
    """
    position, (segment, totals) = extent.position, journal.beginning
    return {
        POSITION: [position.segment, position.offset],
        REPLAY_FROM: extent.oldest_segment(replay_size),
        REPLAY_ROWS: replay_size,
        REPLAY_HASH: extent.digest(replay_size),
        TOTALS: [segment, totals],
    }
