"""The log: the segments that one start of a learner writes, and the removal of old ones.

A segment is reserved ahead, filled in groups, and sealed when the next one exists.
"""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from farflung.common.process.errors import ConfigurationError
from farflung.learner.storage.journal import payloads, record, segments
from farflung.learner.storage.journal.disk import Disk
from farflung.learner.storage.journal.payloads import Start
from farflung.learner.storage.journal.record import Kind, Payload, Position
from farflung.learner.storage.journal.totals import JournalTotals

log = logging.getLogger(__name__)

GROUP_BYTES = 8 << 20  # of one write
RELEASED_BYTES = 4 << 20  # written between two releases, where nothing is synced


class Segment:
    """The segment file that is being written."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        number: int,
        reserved: int,
        totals: Payload,  # of all segments before it
        follows: bytes,  # the link to the last record before it
        *,
        durable: bool,
    ) -> None:
        self.number = number
        self._disk, self._salt, self._durable = disk, record.new_salt(), durable
        self._digest = 0  # of the messages so far
        self._released = 0  # bytes
        self._reserved = max(reserved, record.HEADER_BYTES + record.size(len(totals)))
        path = segments.path_of(folder, number)
        self._descriptor = disk.create(path, self._reserved)
        first = record.encode(self._salt, Kind.TOTALS, totals, follows)
        self.link = record.link_to(first[0])  # to the newest record
        self._end = record.HEADER_BYTES + record.size(len(totals))
        try:
            disk.write(self._descriptor, 0, [record.header(number, self._salt), *first])
            self.sync()
            if durable:
                disk.sync_folder(folder)
        except OSError:
            disk.close(self._descriptor)
            disk.remove(path)
            raise

    def append(self, records: Iterable[tuple[Kind, Payload]]) -> list[Position]:
        """Write the first of these records, as many as have room. Return where each ends.

        They count once they are synced. A write that fails did not happen: call again with the
        same records.
        """
        pieces: list[Payload] = []
        ends: list[Position] = []
        end, digest, link = self._end, self._digest, self.link
        for kind, payload in records:
            following = end + record.size(len(payload))
            if following > self._reserved or (ends and following - self._end > GROUP_BYTES):
                break
            written = record.encode(self._salt, kind, payload, link)
            pieces += written
            link = record.link_to(written[0])
            if kind is Kind.MESSAGE:
                digest = record.chained(digest, payload)
            end = following
            ends.append(Position(self.number, end, digest))
        if pieces:
            self._disk.write(self._descriptor, self._end, pieces)
            self._end, self._digest, self.link = end, digest, link
        return ends

    def sync(self, *, always: bool = False) -> None:
        """Make all that was written survive a power cut, if this journal promises that."""
        if self._durable or always:
            self._disk.sync(self._descriptor)
        elif self._end - self._released >= RELEASED_BYTES:
            self._disk.release(self._descriptor)
            self._released = self._end

    def seal(self) -> None:
        """Return the unused space, and close the file."""
        self._disk.truncate(self._descriptor, self._end)
        self.sync()
        self._disk.close(self._descriptor)


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
            needed = record.size(len(records[0][1]))
            following = self._open(self._newest.number + 1, needed, self._newest.link)
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
        try:
            for number in segments.numbers(self.folder):
                if number >= self._removed:
                    return
                self._disk.remove(segments.path_of(self.folder, number))
                if self._durable:
                    self._disk.sync_folder(self.folder)
        except OSError as error:
            log.warning("cannot remove a segment that is no longer needed: %s", error)

    def no_room(self, error: OSError) -> str:
        """Return a sentence about a full disk."""
        return (
            f"no room for the journal in {self.folder} ({error.strerror}): "
            f"{self._disk.free(self.folder):,} bytes are free and {self._segment_bytes:,} are "
            "needed. Nothing is acknowledged until there is room; then the journal continues"
        )

    def no_file(self, error: OSError) -> str:
        """Return a sentence about a process without a free file descriptor."""
        return (
            f"the journal in {self.folder} waits for a file descriptor ({error.strerror}): "
            "connections or files have taken all. Nothing is acknowledged until one is free; "
            "then the journal continues"
        )

    def _start(self, start: Start) -> Segment:
        """Open this start's first segment and record the epoch in it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if self._durable:
                self._disk.sync_folder(self.folder.parent)
            number = 1 + max(segments.numbers(self.folder), default=0)
            segment = self._open(number, 0, self.totals.link)
            self.totals.add(start)
            segment.append([(Kind.START, payloads.pack(start))])
            # At any durability: actors take a second learner in one epoch for a copy.
            segment.sync(always=True)
            if not self._durable:
                self._disk.sync_folder(self.folder)
        except OSError as error:
            free = "there is no such folder"
            if self.folder.exists():
                free = f"{self._disk.free(self.folder):,} bytes are free"
            raise ConfigurationError(
                f"the journal in {self.folder} cannot be started: {error.strerror}; {free}. "
                "--run-dir names another place"
            ) from error
        return segment

    def _open(self, number: int, needed: int, follows: bytes) -> Segment:
        """Open a segment with room for a record of this size, behind the record of a link."""
        totals = self.totals.pack()
        # The totals of a run with millions of incarnations are long: they stay a quarter at most.
        head = record.HEADER_BYTES + record.size(len(totals))
        reserved = max(self._segment_bytes, 4 * len(totals), head + max(needed, 256))
        place = self._disk, self.folder, number, reserved
        opened = Segment(*place, totals, follows, durable=self._durable)
        self.beginning = number, totals
        return opened
