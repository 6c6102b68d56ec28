"""The log: the segments that one start of a learner writes, and the removal of old ones."""

import logging
from collections.abc import Sequence
from pathlib import Path

from farflung.common.process.errors import ConfigurationError
from farflung.learner.storage.journal import payloads, record, segments
from farflung.learner.storage.journal.disk import Disk
from farflung.learner.storage.journal.payloads import Start
from farflung.learner.storage.journal.record import Kind, Payload, Position
from farflung.learner.storage.journal.segment import Segment
from farflung.learner.storage.journal.totals import JournalTotals

log = logging.getLogger(__name__)


class Log:
    """Segments in order. Each begins with the totals of all before it, which may then go."""

    def __init__(
        self,
        run_folder: Path,
        totals: JournalTotals,  # of all records; the owner counts each record when it is durable
        epoch: int,
        disk: Disk,
        segment_bytes: int,
        *,
        durable: bool,
    ) -> None:
        self.folder = run_folder / segments.FOLDER
        self.totals = totals
        self.beginning = 0, b""  # the newest segment's number, and the totals that it begins with
        self._disk, self._segment_bytes, self._durable = disk, segment_bytes, durable
        self._removed = 0  # segments below this number were removed
        self._newest = self._start(Start(totals.run, epoch))

    def append(self, records: Sequence[tuple[Kind, Payload]]) -> list[Position]:
        """Write the first of these records, in a new segment if the newest one is full.

        Return where each written record ends. They count once they are synced.
        """
        ends = self._newest.append(records)
        if records and not ends:
            following = self._open(self._newest.number + 1, record.size(len(records[0][1])))
            self._newest.seal()
            self._newest = following
            ends = following.append(records)
        return ends

    def sync(self) -> None:
        """Make what was appended survive the fault that the journal is meant to survive."""
        self._newest.sync()

    def seal(self) -> None:
        """Close the newest segment."""
        self._newest.seal()

    def can_remove(self, below: int) -> bool:
        """Return whether a segment has a lower number than this; the newest one stays."""
        return min(below, self._newest.number) > self._removed

    def remove(self, below: int) -> None:
        """Remove the segments below this number.

        The oldest goes first, and durably before the next one: after a gap, numbers would be
        forgotten. A segment that cannot be removed is named; it costs nothing but space.
        """
        if not self.can_remove(below):
            return
        self._removed = min(below, self._newest.number)
        for number in segments.numbers(self.folder):
            if number >= self._removed:
                return
            try:
                self._disk.remove(segments.path_of(self.folder, number))
            except OSError as error:
                log.warning("cannot remove a segment that is no longer needed: %s", error)
                return
            if self._durable:
                self._disk.sync_folder(self.folder)

    def no_room(self, error: OSError) -> str:
        """Return a sentence about a full disk."""
        return (
            f"no room for the journal in {self.folder} ({error.strerror}): "
            f"{self._disk.free(self.folder):,} bytes are free and {self._segment_bytes:,} are "
            "needed. Nothing is acknowledged until there is room; then the journal continues"
        )

    def _start(self, start: Start) -> Segment:
        """Open this start's first segment and record the epoch in it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if self._durable:
                self._disk.sync_folder(self.folder.parent)
            segment = self._open(1 + max(segments.numbers(self.folder), default=0), 0)
            self.totals.add(start)
            segment.append([(Kind.START, payloads.pack(start))])
            segment.sync()
        except OSError as error:
            free = "there is no such folder"
            if self.folder.exists():
                free = f"{self._disk.free(self.folder):,} bytes are free"
            raise ConfigurationError(
                f"the journal in {self.folder} cannot be started: {error.strerror}; {free}. "
                "--run-dir names another place"
            ) from error
        return segment

    def _open(self, number: int, needed: int) -> Segment:
        """Open a segment with room for a record of this size."""
        totals = self.totals.pack()
        # The totals of a run with millions of incarnations are long: they stay a quarter at most.
        head = record.HEADER_BYTES + record.size(len(totals))
        reserved = max(self._segment_bytes, 4 * len(totals), head + max(needed, 256))
        opened = Segment(self._disk, self.folder, number, reserved, totals, durable=self._durable)
        self.beginning = number, totals
        return opened
