"""What the journal asks of a disk. A test may hand in one that is full, or that breaks."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from farflung.common.process import atomic_file

FULL = (errno.ENOSPC, errno.EDQUOT)  # the system's numbers for: there is no room
AT_ONCE = 512  # buffers in one call; every system takes so many

Buffer = bytes | bytearray | memoryview


class Disk:
    """Files as the journal uses them."""

    def create(self, path: Path, size: int) -> int:
        """A new file with so many bytes reserved, or none at all."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, size)
        except OSError:
            os.close(descriptor)
            path.unlink()
            raise
        return descriptor

    def write(self, descriptor: int, offset: int, buffers: Sequence[Buffer]) -> None:
        """All of these bytes from an offset on. Where it fails, the same may be written again."""
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
        """The bytes outlive a power cut once this returns. They are read at the next start, if at all: until then they need no memory.

        Else a journal takes fresh memory as long as there is any, which costs more than writing does.
        """
        getattr(os, "fdatasync", os.fsync)(descriptor)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(
                descriptor, 0, os.lseek(descriptor, 0, os.SEEK_CUR), os.POSIX_FADV_DONTNEED
            )  # all but the page being filled

    def truncate(self, descriptor: int, size: int) -> None:
        """Give back what was reserved beyond."""
        os.ftruncate(descriptor, size)

    def close(self, descriptor: int) -> None:
        """Let go of a file."""
        os.close(descriptor)

    def sync_folder(self, folder: Path) -> None:
        """The names in a folder outlive a power cut once this returns."""
        atomic_file.sync(folder)

    def remove(self, path: Path) -> None:
        """A file is gone."""
        path.unlink()

    def free(self, folder: Path) -> int:
        """Bytes that may be taken."""
        room = os.statvfs(folder)
        return room.f_bavail * room.f_frsize
