"""The memory of a process: a bound that a peer cannot make it cross.

libzmq keeps the parts of a message that never ends without a bound of its own, and an environment
may take what its arguments say. So the process as a whole is watched.
"""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from farflung.common.process.errors import Exit

LOOK_S = 0.1  # at 1 GB/s, a peer's most over loopback, memory grows by 100 MB between two looks
SHARE = 0.75  # of the machine's or the container's memory, where no bound is named
PROCESS = Path("/proc/self/statm")
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0  # 0: not known here
LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def available_bytes(limits: tuple[Path, ...] = LIMITS) -> int:
    """Return the memory of this machine, or of the container if that is less."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in limits:
        try:
            found.append(int(limit.read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return min(found)


class Resident(NamedTuple):
    """The resident memory of a process in bytes; 0 if it is not known."""

    total: int
    files: int  # pages of programs and libraries: processes of one machine share them


def resident_bytes(process: Path = PROCESS) -> Resident:
    """Return the resident memory of this process."""
    try:
        _, resident, shared, *_ = map(int, process.read_text().split())
    except OSError:
        return Resident(0, 0)
    return Resident(resident * PAGE, shared * PAGE)


def own_bytes(process: Path = PROCESS) -> int:
    """Return the resident memory of this process that no file backs; 0 if it is not known."""
    resident = resident_bytes(process)
    return resident.total - resident.files


class MemoryGuard:
    """Ends the process in one sentence if it holds more memory than it may."""

    def __init__(self, most: int, flag: str, look: Callable[[], int] = own_bytes) -> None:
        """Take a bound in bytes; 0: a share of what there is. `flag` is the setting."""
        self._most = most or int(SHARE * available_bytes())
        self._flag, self._look = flag, look
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> "MemoryGuard":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(LOOK_S):
            if (held := self._look()) > self._most:
                self._end(held)

    def _end(self, held: int) -> None:
        stream = sys.__stderr__ or sys.stderr
        stream.write(
            f"this process holds {held / 1e9:.1f} GB of memory and may hold "
            f"{self._most / 1e9:.1f}: it ends; {self._flag} names another bound\n"
        )
        stream.flush()
        os._exit(Exit.MEMORY)
