"""What the tests of the journal share."""

import errno
from typing import Any

import pytest
from support.makers import a_frame, a_parcel, a_spec
from support.waiting import eventually

from farflung.common.protocol import wire
from farflung.learner.endpoint.receiver import Accepted
from farflung.learner.storage.journal.disk import Disk
from farflung.learner.storage.journal.payloads import JournalTotals
from farflung.learner.storage.journal.writer import Journal

PATIENCE_S = 10.0


class Faulty(Disk):
    """A disk that remembers what was asked of it, and fails where it is told to."""

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


class Desk:
    """A journal in a folder, and what comes out of it."""

    def __init__(self, run: Any, **changes: Any) -> None:
        self.spec = a_spec()
        self.delivered: list[Any] = []
        self.disk = Faulty()
        options = {"durable": True, "disk": self.disk, "segment_bytes": 4096} | changes
        self.journal = Journal(run, JournalTotals("run-1"), 1, self.delivered.extend, **options)

    def take(self, sequence: int, **changes: Any) -> Accepted:
        """Hand in a parcel."""
        frame = a_frame(self.spec, sequence=sequence, **changes)
        accepted = Accepted(wire.read_envelope(wire.open_frame(frame)), a_parcel(), frame)
        self.journal.take(accepted)
        return accepted

    def settled(self, count: int) -> list[int]:
        """The numbers that were settled, once there are so many."""
        found: list[int] = []
        eventually(
            lambda: found.extend(e.sequence for e in self.journal.settled()) or len(found) >= count
        )
        return found


@pytest.fixture
def desk(tmp_path):
    """Opens journals in one run folder, and closes them."""
    made: list[Desk] = []

    def make(**changes: Any) -> Desk:
        made.append(Desk(tmp_path, **changes))
        return made[-1]

    yield make
    for one in made:
        one.disk.full, one.disk.broken = False, ""
        one.journal.close()
