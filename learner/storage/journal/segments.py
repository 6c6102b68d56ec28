"""The segments that one life of a learner writes: the next one when one is full, and an end to those that nothing needs."""

import logging
from pathlib import Path

from farflung.common.process.errors import ConfigurationError
from farflung.learner.storage.journal import folder, payloads
from farflung.learner.storage.journal import format as form
from farflung.learner.storage.journal.disk import Disk
from farflung.learner.storage.journal.format import Kind
from farflung.learner.storage.journal.payloads import JournalTotals, Start
from farflung.learner.storage.journal.segment import Segment

log = logging.getLogger(__name__)


class Segments:
    """Each segment begins with what all before it come to, so that it can be understood without them."""

    def __init__(
        self,
        run: Path,
        table: JournalTotals,
        epoch: int,
        disk: Disk,
        segment_bytes: int,
        *,
        durable: bool,
    ) -> None:
        self.folder = run / folder.NAME
        self.table = (
            table  # what all records come to: whoever appends one counts it here when it is durable
        )
        self.beginning = (
            0,
            b"",
        )  # the newest segment's number, and the table in it: what came before
        self._disk, self._segment_bytes, self._durable = disk, segment_bytes, durable
        self._removed = 0  # segments below this number are gone
        self.newest = self._begin(Start(table.run, epoch))

    def roll(self, needed: int) -> None:
        """The next segment, with room for a record of this size; the one before gives back what it did not use."""
        following = self._open(self.newest.number + 1, needed)
        self.newest.seal()
        self.newest = following

    def can_remove(self, below: int) -> bool:
        """Whether there is a segment with a lower number than this; the one that is being written stays."""
        return min(below, self.newest.number) > self._removed

    def remove(self, below: int) -> None:
        """Let go of these segments, oldest first and each for good before the next: a gap would be numbers forgotten.

        What cannot be removed is named, and costs nothing but room.
        """
        if not self.can_remove(below):
            return
        self._removed = min(below, self.newest.number)
        for number in [number for number in folder.numbers(self.folder) if number < self._removed]:
            try:
                self._disk.remove(folder.path_of(self.folder, number))
            except OSError as error:
                log.warning("a segment that is not needed cannot be removed: %s", error)
                return
            if self._durable:
                self._disk.sync_folder(self.folder)

    def no_room(self, error: OSError) -> str:
        """That there is no room for the next segment, in a sentence."""
        return (
            f"no room for the journal in {self.folder} ({error.strerror}): {self._disk.free(self.folder):,} bytes are free and "
            f"{self._segment_bytes:,} are needed. Nothing is acknowledged until there is room; then it goes on by itself"
        )

    def _begin(self, start: Start) -> Segment:
        """The first segment of this life, and in it that this life began."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if self._durable:
                self._disk.sync_folder(self.folder.parent)
            segment = self._open(1 + max(folder.numbers(self.folder), default=0), 0)
            self.table.inbox.epoch = start.epoch
            segment.append([(Kind.START, payloads.pack(start))])
            segment.sync()
            segment.confirm(Kind.START, payloads.pack(start))
        except OSError as error:
            free = (
                f"{self._disk.free(self.folder):,} bytes are free"
                if self.folder.exists()
                else "there is no such folder"
            )
            raise ConfigurationError(
                f"the journal in {self.folder} cannot be begun: {error.strerror}; {free}. --run-dir names another place"
            ) from error
        return segment

    def _open(self, number: int, needed: int) -> Segment:
        self.beginning = number, (table := payloads.pack_table(self.table))
        reserved = max(
            self._segment_bytes, form.HEADER_BYTES + form.size(len(table)) + max(needed, 256)
        )
        return Segment(
            self._disk, self.folder, number, reserved, (Kind.TABLE, table), durable=self._durable
        )
