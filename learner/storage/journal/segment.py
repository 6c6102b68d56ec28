"""The segment that is being written: reserved ahead, filled in batches, sealed when the next one is there."""

from collections.abc import Sequence
from pathlib import Path

from farflung.learner.storage.journal import format as form
from farflung.learner.storage.journal.disk import Buffer, Disk
from farflung.learner.storage.journal.folder import Position, path_of
from farflung.learner.storage.journal.format import Kind, Payload


class Segment:
    """One open segment."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        number: int,
        reserved: int,
        first: tuple[Kind, Payload],
        *,
        durable: bool,
    ) -> None:
        self.number, self.path = number, path_of(folder, number)
        self._disk, self._salt, self._durable = disk, form.new_salt(), durable
        self._reserved = max(reserved, form.HEADER_BYTES + form.size(len(first[1])))
        self._descriptor = disk.create(self.path, self._reserved)
        try:
            beginning = [form.header(number, self._salt), *form.encode(self._salt, *first)]
            disk.write(self._descriptor, 0, beginning)
        except OSError:
            disk.close(self._descriptor)
            disk.remove(self.path)
            raise
        self.end = sum(map(len, beginning))
        self.confirmed = Position(number, self.end)  # everything before it counts
        self.sync()
        if durable:
            disk.sync_folder(folder)

    @property
    def room(self) -> int:
        """Bytes that are reserved and not used."""
        return self._reserved - self.end

    def append(self, records: Sequence[tuple[Kind, Payload]]) -> None:
        """Write records behind the last one. If that fails it did not happen, and may be tried again."""
        pieces: list[Buffer] = [
            piece for kind, payload in records for piece in form.encode(self._salt, kind, payload)
        ]
        self._disk.write(self._descriptor, self.end, pieces)
        self.end += sum(map(len, pieces))

    def confirm(self, kind: Kind, payload: Payload) -> Position:
        """The next record that was written counts; gives the place where it ends."""
        digest = self.confirmed.digest
        digest = form.chained(digest, payload) if kind is Kind.MESSAGE else digest
        self.confirmed = Position(
            self.number, self.confirmed.offset + form.size(len(payload)), digest
        )
        return self.confirmed

    def sync(self) -> None:
        """What was written outlives the fault that the journal is meant to survive."""
        if self._durable:
            self._disk.sync(self._descriptor)

    def seal(self) -> None:
        """Give back what was not used, and let go."""
        self._disk.truncate(self._descriptor, self.end)
        self.sync()
        self._disk.close(self._descriptor)
