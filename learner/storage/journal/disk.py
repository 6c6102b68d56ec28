"""The disk as the journal uses it. Tests replace it by one that is full, slow or broken."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from farflung.common.process import atomic_file
from farflung.common.process.errors import Exit, FarflungError
from farflung.learner.storage.journal.record import Payload

FULL = (errno.ENOSPC, errno.EDQUOT)  # the system's numbers for a full disk
AT_ONCE = 512  # buffers in one call, which every system accepts


class DiskFailure(FarflungError):
    """The disk failed. Nothing that depends on it can be promised any more."""

    exit_code = Exit.DISK


class Disk:
    """Calls into the file system."""

    def create(self, path: Path, size: int) -> int:
        """Create a file with this many bytes reserved. If that fails there is no file."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, size)
        except OSError:
            os.close(descriptor)
            path.unlink()
            raise
        return descriptor

    def write(self, descriptor: int, offset: int, buffers: Sequence[Payload]) -> None:
        """Write all of these bytes at an offset. If that fails, write the same ones again."""
        os.lseek(descriptor, offset, os.SEEK_SET)
        wanted = [memoryview(buffer) for buffer in buffers if len(buffer)]
        for first in range(0, len(wanted), AT_ONCE):
            rest = wanted[first : first + AT_ONCE]
            while rest:
                written = os.writev(descriptor, rest)
                while rest and written >= len(rest[0]):
                    written -= len(rest.pop(0))
                if written:
                    rest[0] = rest[0][written:]

    def sync(self, descriptor: int) -> None:
        """Make a file's bytes survive a power cut, and drop them from memory."""
        getattr(os, "fdatasync", os.fsync)(descriptor)
        self.release(descriptor)

    def release(self, descriptor: int) -> None:
        """Drop a file's bytes from memory; those that are not on the disk yet are written first.

        This waits for nothing: what is being written is dropped by a later call. The bytes are read
        at the next start, if at all. A journal that kept its pages would take fresh memory as long
        as there is any, which costs more than writing does.
        """
        if hasattr(os, "posix_fadvise"):  # all pages but the one being filled
            written = os.lseek(descriptor, 0, os.SEEK_CUR)
            os.posix_fadvise(descriptor, 0, written, os.POSIX_FADV_DONTNEED)

    def truncate(self, descriptor: int, size: int) -> None:
        """Return reserved bytes beyond this size to the file system."""
        os.ftruncate(descriptor, size)

    def close(self, descriptor: int) -> None:
        """Close a file."""
        os.close(descriptor)

    def sync_folder(self, folder: Path) -> None:
        """Make the names in a folder survive a power cut."""
        atomic_file.sync(folder)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()

    def free(self, folder: Path) -> int:
        """Return the free bytes."""
        room = os.statvfs(folder)
        return room.f_bavail * room.f_frsize
