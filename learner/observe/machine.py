"""The processor and memory that this process and its machine use."""

from contextlib import suppress
from dataclasses import dataclass

import psutil

LOOK_S = 1.0  # between two looks: shares of a shorter time jump


@dataclass(frozen=True, slots=True)
class Usage:
    """Shares in percent: of one processor for the process, of all for the machine."""

    cpu: float | None = None
    machine_cpu: float | None = None
    memory: int = 0  # bytes
    machine_memory: float | None = None


class Machine:
    """Looks at this process and its machine now and then."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._looked_at: float | None = None
        self._usage = Usage()
        with suppress(OSError, psutil.Error):
            self._look()  # the first call begins the time that the next one measures

    def usage(self, seconds: float) -> Usage:
        """Return what is used, as of the last second."""
        if self._looked_at is None:
            self._looked_at = seconds
        if seconds - self._looked_at >= LOOK_S:
            self._looked_at = seconds
            with suppress(OSError, psutil.Error):  # no descriptor is free: the last figures stay
                self._usage = self._look()
        return self._usage

    def _look(self) -> Usage:
        return Usage(
            self._process.cpu_percent(),
            psutil.cpu_percent(),
            self._process.memory_info().rss,
            psutil.virtual_memory().percent,
        )
