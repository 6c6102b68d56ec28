"""A disk that loses power: real files in memory, and beside them what of each would outlive a power cut."""

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
    """The process is gone in the middle of what it was doing. Nobody catches this."""


class SimulatedDisk(Disk):
    """A folder and everything below it. Only what was synced, files and folders each for themselves, is sure to outlive the power.

    What was written since may be there, or not, or in parts: blocks of any size, in any order.
    """

    def __init__(self, folder: Path, chance: Random) -> None:
        self.folder, self.chance = folder, chance
        self.full = False
        self.broken = False  # the next sync fails
        self.dies_in = -1  # so many more steps; below 0: not at all
        self._descriptors: set[int] = set()
        self._contents: dict[int, bytes] = {}  # of files, by inode
        self._names: dict[int, dict[str, int]] = {}  # of folders, by inode

    # ---- what the journal asks for

    def create(self, path: Path, size: int) -> int:
        """A file with room reserved, or none at all."""
        self._step(needs_room=True)
        descriptor = super().create(path, size)
        self._descriptors.add(descriptor)
        return descriptor

    def write(self, descriptor, offset, buffers):  # type: ignore[no-untyped-def]
        """All bytes; on a full disk some of them, and an error."""
        data = b"".join(map(bytes, buffers))
        written = self.chance.randint(0, len(data)) if self.full or self.dies_in == 0 else len(data)
        os.pwrite(descriptor, data[:written], offset)
        self._step(needs_room=True)

    def truncate(self, descriptor: int, size: int) -> None:
        """Give back what was reserved."""
        self._step()
        super().truncate(descriptor, size)

    def close(self, descriptor: int) -> None:
        """Let go."""
        self._descriptors.discard(descriptor)
        super().close(descriptor)

    def remove(self, path: Path) -> None:
        """A name less."""
        self._step()
        super().remove(path)

    def sync_inode(self, descriptor: int) -> None:
        """What `os.fsync` does here: a file's bytes, or a folder's names, are sure. If it fails, what was to be written is dropped."""
        self._step()
        about = os.fstat(descriptor)
        if stat.S_ISDIR(about.st_mode):
            self._fail_if_broken()
            self._names[about.st_ino] = {
                entry.name: entry.inode() for entry in os.scandir(descriptor)
            }
            return
        now = Path(f"/proc/self/fd/{descriptor}").read_bytes()  # it may be open for writing only
        if self.broken and descriptor in self._descriptors:
            os.pwrite(
                descriptor,
                self._torn(self._contents.get(about.st_ino, b"").ljust(len(now), b"\0"), now),
                0,
            )
        self._fail_if_broken()
        self._contents[about.st_ino] = now

    # ---- faults

    def kill(self) -> None:
        """The process is gone: what it wrote is still there."""
        self.full = self.broken = False
        self.dies_in = -1
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    def cut_power(self) -> None:
        """The machine is gone as well: only what was synced is sure to be there."""
        self.kill()
        files, folders = self._everything()
        after = self.folder.with_name(self.folder.name + "-after")
        self._rebuild(after, self.folder.stat().st_ino, files, folders)
        shutil.rmtree(self.folder)
        after.rename(self.folder)
        self.settle()

    def settle(self) -> None:
        """Everything that is there is sure to stay."""
        self._contents, self._names = self._everything()

    def _everything(self) -> tuple[dict[int, bytes], dict[int, dict[str, int]]]:
        """What is written now: files and folders by inode."""
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
        """Blocks of what is sure, and of what was only written."""
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
    """The system's own calls go to the simulated disk."""
    real = os.fsync, os.fdatasync
    os.fsync = os.fdatasync = sync  # type: ignore[assignment]
    try:
        yield
    finally:
        os.fsync, os.fdatasync = real
