"""A journal with a faulty disk, for the tests of storage."""

import errno
from pathlib import Path
from typing import Any

import pytest
from support.makers import a_frame, a_parcel, a_spec
from support.waiting import eventually

from farflung.common.protocol import wire
from farflung.learner.endpoint.items import Item, RefusedNumber, Settlements
from farflung.learner.storage.journal import segments
from farflung.learner.storage.journal.disk import Disk
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.record import Kind, Record
from farflung.learner.storage.journal.totals import JournalTotals


class FaultyDisk(Disk):
    """A disk that records its calls, and fails at some of them on demand."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.full = False
        self.broken = ""  # the call that fails with an I/O error

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name == self.broken:
            raise OSError(errno.EIO, "Input/output error")
        if self.full and name in ("create", "write"):
            raise OSError(errno.ENOSPC, "No space left on device")

    def create(self, path, size):
        self._call("create")
        return super().create(path, size)

    def write(self, descriptor, offset, buffers):
        self._call("write")
        super().write(descriptor, offset, buffers)

    def sync(self, descriptor):
        self._call("sync")
        super().sync(descriptor)

    def sync_folder(self, folder):
        self._call("sync_folder")
        super().sync_folder(folder)

    def remove(self, path):
        self._call("remove")
        super().remove(path)


class JournalBench:
    """A journal in a run's folder, and the parcels that it delivers."""

    def __init__(self, run: Path, **changes: Any) -> None:
        self.spec = a_spec()
        self.folder = run / segments.FOLDER
        self.delivered: list[Any] = []
        self.settlements = Settlements()
        self.disk = FaultyDisk()
        options = {"durable": True, "disk": self.disk, "segment_bytes": 4096} | changes
        self.journal = Journal(run, JournalTotals("run-1"), 1, self.delivered.extend, **options)

    def append(self, sequence: int, **changes: Any) -> bytes:
        """Append a parcel; return its message."""
        frame = a_frame(self.spec, sequence=sequence, **changes)
        self._append(frame, a_parcel())
        return frame

    def refuse(self, sequence: int, reason: str, **changes: Any) -> None:
        """Append a number that was refused."""
        self._append(a_frame(self.spec, sequence=sequence, **changes), RefusedNumber(reason))

    def settled(self, count: int) -> list[int]:
        """Wait for so many settled numbers."""
        found: list[int] = []
        eventually(lambda: found.extend(self._settled()) or len(found) >= count)
        return found

    @property
    def unsettled(self) -> bool:
        """True if no number was settled since the last look."""
        return not self._settled()

    def _settled(self) -> list[int]:
        return [envelope.sequence for envelope, _ in self.settlements.take()]

    def _append(self, frame: bytes, content: Any) -> None:
        envelope = wire.read_envelope(wire.open_frame(frame))
        self.journal.append([Item(envelope, content, frame, self.settlements)])

    def records(self, kind: Kind) -> list[Record]:
        """Read the records of a kind from disk."""
        found = [record for _, record in segments.read(self.folder)]
        assert all(isinstance(record, Record) for record in found)
        return [record for record in found if isinstance(record, Record) and record.kind is kind]

    @property
    def numbers(self) -> list[int]:
        """The segments on disk."""
        return segments.numbers(self.folder)


@pytest.fixture
def make_journal(tmp_path):
    """Open journals in one run's folder, and close them after the test."""
    made: list[JournalBench] = []

    def make(**changes: Any) -> JournalBench:
        made.append(JournalBench(tmp_path, **changes))
        return made[-1]

    yield make
    for one in made:
        one.disk.full, one.disk.broken = False, ""
        one.journal.close()


@pytest.fixture
def first_epoch(tmp_path):
    """An epoch that received parcels, saved a checkpoint, received more, and ended."""
    from support.learner_epoch import PARCELS, LearnerEpoch  # with torch

    from farflung.learner.storage.saver import Saver

    epoch = LearnerEpoch(tmp_path)
    epoch.receive(*range(1, 7))
    epoch.core.update()
    epoch.core.update()
    epoch.receiver.roster.join("box-1", 7, 0.0)
    saver = Saver(epoch.run, epoch.core, epoch.journal, epoch.extent)
    saver.finish(epoch.receiver.roster.state())
    epoch.journal.mark(epoch.core.publish())
    epoch.receive(*range(7, PARCELS + 1))
    epoch.end()
    return epoch
