"""The segment being written: reserved ahead, filled in groups, sealed when the next one exists."""

from collections.abc import Iterable
from pathlib import Path

from farflung.learner.storage.journal import record
from farflung.learner.storage.journal.disk import Disk
from farflung.learner.storage.journal.record import Kind, Payload, Position
from farflung.learner.storage.journal.segments import path_of

GROUP_BYTES = 8 << 20  # of one write


class Segment:
    """One open segment file."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        number: int,
        reserved: int,
        totals: Payload,  # of all segments before it
        *,
        durable: bool,
    ) -> None:
        self.number = number
        self._disk, self._salt, self._durable = disk, record.new_salt(), durable
        self._digest = 0  # of the messages so far
        self._reserved = max(reserved, record.HEADER_BYTES + record.size(len(totals)))
        path = path_of(folder, number)
        self._descriptor = disk.create(path, self._reserved)
        beginning = [
            record.header(number, self._salt),
            *record.encode(self._salt, Kind.TOTALS, totals),
        ]
        try:
            disk.write(self._descriptor, 0, beginning)
        except OSError:
            disk.close(self._descriptor)
            disk.remove(path)
            raise
        self._end = record.HEADER_BYTES + record.size(len(totals))
        self.sync()
        if durable:
            disk.sync_folder(folder)

    def append(self, records: Iterable[tuple[Kind, Payload]]) -> list[Position]:
        """Write the first of these records, as many as have room. Return where each ends.

        They count once they are synced. A write that fails did not happen: call again with the
        same records.
        """
        pieces: list[Payload] = []
        ends: list[Position] = []
        end, digest = self._end, self._digest
        for kind, payload in records:
            following = end + record.size(len(payload))
            if following > self._reserved or (ends and following - self._end > GROUP_BYTES):
                break
            pieces += record.encode(self._salt, kind, payload)
            if kind is Kind.MESSAGE:
                digest = record.chained(digest, payload)
            end = following
            ends.append(Position(self.number, end, digest))
        if pieces:
            self._disk.write(self._descriptor, self._end, pieces)
            self._end, self._digest = end, digest
        return ends

    def sync(self) -> None:
        """Make all that was written survive a power cut, if this journal promises that."""
        if self._durable:
            self._disk.sync(self._descriptor)

    def seal(self) -> None:
        """Return the unused space, and close the file."""
        self._disk.truncate(self._descriptor, self._end)
        self.sync()
        self._disk.close(self._descriptor)
