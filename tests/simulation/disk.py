"""A disk that loses power: real files in memory, and a record of what was synced."""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random

from farflung.learner.storage.journal.disk import Disk


class Death(BaseException):
    """The process is gone in the middle of its work. Nothing catches this."""


class SimulatedDisk(Disk):
    """A folder with everything below it.

    Only synced files and folders, each for itself, are sure to survive a power cut. Later writes
    may be there, or not, or in parts: blocks of any size, in any order.
    """

    def __init__(self, folder: Path, chance: Random) -> None:
        self.folder, self.chance = folder, chance
        self.full = False
        self.broken = False  # the next sync fails
        self.dies_in = -1  # so many more steps; below 0: not at all
        self._descriptors: set[int] = set()
        self._contents: dict[int, bytes] = {}  # of files, by inode
        self._dropped: dict[int, bytearray] = {}  # by inode: 1 for each byte of a failed sync
        self._names: dict[int, dict[str, int]] = {}  # of folders, by inode

    # ---- calls of the journal

    def create(self, path: Path, size: int) -> int:
        """Create a file with reserved space, or none at all."""
        self._step(needs_room=True)
        descriptor = super().create(path, size)
        self._descriptors.add(descriptor)
        return descriptor

    def write(self, descriptor, offset, buffers):  # type: ignore[no-untyped-def]
        """Write all bytes; on a full disk write some of them, and raise."""
        data = b"".join(map(bytes, buffers))
        written = self.chance.randint(0, len(data)) if self.full or self.dies_in == 0 else len(data)
        os.pwrite(descriptor, data[:written], offset)
        dropped = self._dropped.get(os.fstat(descriptor).st_ino)
        if dropped is not None:
            dropped[offset : offset + written] = bytes(written)
        self._step(needs_room=True)

    def truncate(self, descriptor: int, size: int) -> None:
        """Return reserved space."""
        self._step()
        super().truncate(descriptor, size)

    def close(self, descriptor: int) -> None:
        """Close a file."""
        self._descriptors.discard(descriptor)
        super().close(descriptor)

    def remove(self, path: Path) -> None:
        """Remove a name."""
        self._step()
        super().remove(path)

    def sync_inode(self, descriptor: int) -> None:
        """Do what `os.fsync` does: make a file's bytes, or a folder's names, sure.

        Linux reports an error once. The pages that were not written count as clean from then on:
        no later sync writes them. Until the system needs their memory they can still be read.
        """
        self._step()
        about = os.fstat(descriptor)
        if stat.S_ISDIR(about.st_mode):
            self._fail_if_broken()
            self._names[about.st_ino] = {
                entry.name: entry.inode() for entry in os.scandir(descriptor)
            }
            return
        now = Path(f"/proc/self/fd/{descriptor}").read_bytes()  # it may be open for writing only
        before = self._contents.get(about.st_ino, b"").ljust(len(now), b"\0")[: len(now)]
        if self.broken and descriptor in self._descriptors:
            written = self._torn(before, now).ljust(len(now), b"\0")[: len(now)]
            self._dropped[about.st_ino] = bytearray(
                new != old for new, old in zip(now, written, strict=True)
            )
            self._contents[about.st_ino] = written
            if self.chance.random() < 0.5:
                os.pwrite(descriptor, written, 0)
        self._fail_if_broken()
        dropped = self._dropped.get(about.st_ino, b"").ljust(len(now), b"\0")
        self._contents[about.st_ino] = (
            bytes(
                old if gone else new for new, old, gone in zip(now, before, dropped, strict=False)
            )
            if any(dropped)
            else now
        )

    # ---- faults

    def kill(self) -> None:
        """End the process; its writes are still there."""
        self.full = self.broken = False
        self.dies_in = -1
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    def cut_power(self) -> None:
        """End the machine as well; only synced bytes are sure to be there."""
        self.kill()
        files, folders = self._everything()
        after = self.folder.with_name(self.folder.name + "-after")
        self._rebuild(after, self.folder.stat().st_ino, files, folders)
        shutil.rmtree(self.folder)
        after.rename(self.folder)
        self.settle()

    def settle(self) -> None:
        """Make everything that is there sure to stay."""
        self._contents, self._names = self._everything()
        self._dropped.clear()

    def _everything(self) -> tuple[dict[int, bytes], dict[int, dict[str, int]]]:
        """Return the files and folders as written, by inode."""
        files, folders = {}, {}
        for above, _, names in os.walk(self.folder):
            folders[Path(above).stat().st_ino] = {
                entry.name: entry.inode() for entry in os.scandir(above)
            }
            files |= {
                path.stat().st_ino: path.read_bytes()
                for path in (Path(above, name) for name in names)
            }
        return files, folders

    def _rebuild(
        self, place: Path, inode: int, files: dict[int, bytes], folders: dict[int, dict[str, int]]
    ) -> None:
        place.mkdir()
        now, sure = folders.get(inode, {}), self._names.get(inode, {})
        for name in sorted({*now, *sure}):
            chosen = (
                now.get(name)
                if now.get(name) == sure.get(name)
                else self.chance.choice((now.get(name), sure.get(name)))
            )
            if chosen in folders or chosen in self._names:
                self._rebuild(place / name, chosen, files, folders)
            elif chosen is not None:
                (place / name).write_bytes(
                    self._torn(self._contents.get(chosen, b""), files.get(chosen))
                )

    def _torn(self, sure: bytes, now: bytes | None) -> bytes:
        """Mix blocks of the synced bytes and of the written ones."""
        fate = self.chance.random()
        if now is None or now == sure or fate < 0.3:
            return sure
        if fate < 0.5:
            return now
        length = max(len(sure), len(now))
        both = sure.ljust(length, b"\0"), now.ljust(length, b"\0")
        differ = [index for index in range(length) if both[0][index] != both[1][index]] or [0]
        cuts = sorted(
            self.chance.randint(differ[0], differ[-1]) for _ in range(self.chance.randint(1, 4))
        )
        which = self.chance.randint(0, 1)
        pieces = [
            both[(which + index) % 2][start:end]
            for index, (start, end) in enumerate(pairwise((0, *cuts, length)))
        ]
        return b"".join(pieces)[: self.chance.choice((len(now), length))]

    def _step(self, *, needs_room: bool = False) -> None:
        if self.dies_in == 0:
            raise Death
        self.dies_in -= self.dies_in > 0
        if self.full and needs_room:
            raise OSError(errno.ENOSPC, "No space left on device")

    def _fail_if_broken(self) -> None:
        if self.broken:
            self.broken = False
            raise OSError(errno.EIO, "Input/output error")


@contextmanager
def installed(sync: Callable[[int], None]) -> Iterator[None]:
    """Let the system's own calls go to the simulated disk."""
    real = os.fsync, os.fdatasync
    os.fsync = os.fdatasync = sync  # type: ignore[assignment]
    try:
        yield
    finally:
        os.fsync, os.fdatasync = real
