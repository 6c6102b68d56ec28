"""Log lines for people: `2026-03-01T12:00:00.123Z actor box-1f03a2[4711] 1.42 WARNING the learner is silent`."""

import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

OURS = "farflung"  # the level is ours; of other packages only warnings are shown


@dataclass(slots=True)
class Who:
    """Who writes: role and name, and the version of the weights that it holds, which the process keeps up to date."""

    role: str
    name: str
    version: str = "-"


@dataclass(slots=True)
class Log:
    """The log of this process, from `start` to `stop`."""

    who: Who
    clock: Callable[[], float] = time.monotonic
    handlers: list[logging.Handler] = field(default_factory=list)

    def copy_to(self, path: Path) -> None:
        """Keep what follows in a file too."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._add(logging.FileHandler(path, encoding="utf-8"))

    def stop(self) -> None:
        """Close every file and write no more."""
        logging.captureWarnings(False)
        for handler in self.handlers:
            logging.getLogger().removeHandler(handler)
            handler.close()
        self.handlers.clear()

    def _add(self, handler: logging.Handler) -> None:
        handler.setFormatter(_Lines(self.who))
        handler.addFilter(Sparingly(self.clock))
        self.handlers.append(handler)
        logging.getLogger().addHandler(handler)


def start(
    role: str,
    name: str,
    level: str = "info",
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Log:
    """Write this process's log lines to the stream, by default whatever `sys.stderr` is at that moment."""
    log = Log(Who(role, name), clock)
    log._add(_Stderr() if stream is None else logging.StreamHandler(stream))
    logging.getLogger(OURS).setLevel(level.upper())
    logging.captureWarnings(True)
    return log


def once_every(seconds: float) -> dict[str, float]:
    """For a line that may repeat: `log.warning("…", extra=once_every(10))` is written once in that time, the rest is counted."""
    return {"once_every": seconds}


class Sparingly(logging.Filter):
    """Holds back what `once_every` marked; equal lines are those with the same text before its arguments are filled in."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._held: dict[
            tuple[str, str], tuple[float, int]
        ] = {}  # when it may be written again, how many were held back

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write it now; if so, its line says how many like it were held back."""
        seconds = getattr(record, "once_every", None)
        if seconds is None:
            return True
        key, now = (record.name, str(record.msg)), self._clock()
        again_at, held = self._held.get(key, (now, 0))
        writes = now >= again_at
        self._held[key] = (now + seconds, 0) if writes else (again_at, held + 1)
        record.held = held
        return writes


class _Lines(logging.Formatter):
    """One line with time, role, name, process and version; a traceback follows on its own lines."""

    def __init__(self, who: Who) -> None:
        super().__init__("%(at)sZ %(who)s %(levelname)s %(message)s%(more)s")
        self._who = who

    def format(self, record: logging.LogRecord) -> str:
        who, held = self._who, getattr(record, "held", 0)
        record.at = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[
            :-3
        ]
        record.who = f"{who.role} {who.name}[{record.process}] {who.version}"
        record.more = f" ({held} more like this before)" if held else ""
        return super().format(record)


class _Stderr(logging.StreamHandler[TextIO]):
    """Follows `sys.stderr`, which a live panel replaces while it is on the screen."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)
