"""Log lines for people: `2026-03-01T12:00:00.123Z actor box-1f03a2[4711] 1.42 WARNING no answer`.

On a terminal: `13:00:00 actor: WARNING no answer`. They are written in a thread of their own: a
terminal that takes nothing holds up no other.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TextIO

from farflung.common.process.terminal import PATIENCE_S, LastingLine, direct, rewritable, stand_in
from farflung.common.process.text import indented

OURS = "farflung"  # the level is for our loggers; other packages' show warnings only
LASTING = {"lasting": True}  # mark of a line for work that goes on until the next line
FILED = {"filed": True}  # mark of a line for files only: what is shown says the same
TICK_S = 0.5  # between two looks at the work that goes on
WAITING_LINES = 1000  # for a terminal or a pipe; further ones are counted and left out


@dataclass(slots=True)
class Who:
    """The writer of a line: role, name, and the version of its weights, kept up to date."""

    role: str
    name: str
    version: str = "-"


class Log:
    """The log of this process, from `start` to `stop`."""

    def __init__(self, who: Who, stream: TextIO | None, clock: Callable[[], float]) -> None:
        self.who = who
        self._clock = clock
        self._former = logging.getLogger(OURS).level  # another log may follow in this process
        self._handlers: list[logging.Handler] = []
        self._queue = _BoundedQueue()
        self._writer = _Writer(self._queue, stream)
        self._add(self._queue, short=(stream or sys.stderr).isatty())
        self._writer.start()

    def copy_to(self, path: Path) -> None:
        """Keep the lines that follow in a file too. They are there at once."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._add(logging.FileHandler(path, encoding="utf-8"))

    def stop(self) -> None:
        """Write the lines that wait, and close every file. A terminal gets a second for it."""
        handlers, self._handlers = self._handlers, []
        if not handlers:
            return
        logging.captureWarnings(False)
        logging.getLogger(OURS).setLevel(self._former)
        for handler in handlers:
            logging.getLogger().removeHandler(handler)
        self._writer.finish()
        for handler in handlers:
            handler.close()

    def __enter__(self) -> "Log":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _add(self, handler: logging.Handler, short: bool = False) -> None:
        handler.setFormatter((_ShortFormatter if short else _LineFormatter)(self.who))
        handler.addFilter(Sparingly(self._clock))
        self._handlers.append(handler)
        logging.getLogger().addHandler(handler)


def start(
    role: str,
    name: str,
    level: str = "info",
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Log:
    """Write this process's log lines to the stream, by default the `sys.stderr` of the moment.

    Without a stream, lines that are printed to a terminal take the same way.
    """
    log = Log(Who(role, name), stream, clock)
    logging.getLogger(OURS).setLevel(level.upper())
    logging.captureWarnings(True)
    return log


def set_level(level: str) -> None:
    """Let lines of this level and above through, from now on."""
    logging.getLogger(OURS).setLevel(level.upper())


def once_every(seconds: float) -> dict[str, float]:
    """Mark a line that may repeat: `log.warning("…", extra=once_every(10))`.

    It is written once in that time; the rest is counted.
    """
    return {"once_every": seconds}


class Sparingly(logging.Filter):
    """Holds back lines that `once_every` marked. Equal are lines of one text before formatting."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        # By logger and text: when it may be written again, and how many were held back.
        self._held: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True for a line to write now; it counts those like it that were held back."""
        seconds = getattr(record, "once_every", None)
        if seconds is None:
            return True
        key, now = (record.name, str(record.msg)), self._clock()
        again_at, held = self._held.get(key, (now, 0))
        writes = now >= again_at
        self._held[key] = (now + seconds, 0) if writes else (again_at, held + 1)
        record.held = held
        return writes


class _LineFormatter(logging.Formatter):
    """One line with time, role, name, process and version; others, as of a traceback, indented."""

    def __init__(
        self, who: Who, form: str = "%(at)sZ %(who)s %(levelname)s %(message)s%(more)s"
    ) -> None:
        super().__init__(form)
        self._who = who

    def format(self, record: logging.LogRecord) -> str:
        self._name(record)
        held = getattr(record, "held", 0)
        record.more = f" ({held} more like this before)" if held else ""
        return indented(super().format(record))

    def _name(self, record: logging.LogRecord) -> None:
        """Name time and writer."""
        who, at = self._who, datetime.fromtimestamp(record.created, UTC)
        record.at = at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        record.who = f"{who.role} {who.name}[{record.process}] {who.version}"


class _ShortFormatter(_LineFormatter):
    """One line with the local time and the role; the level only of warnings and errors."""

    def __init__(self, who: Who) -> None:
        super().__init__(who, "%(at)s %(who)s: %(level)s%(message)s%(more)s")

    def _name(self, record: logging.LogRecord) -> None:
        record.at = time.strftime("%H:%M:%S", time.localtime(record.created))
        record.who = self._who.role
        grave = record.levelno >= logging.WARNING
        record.level = f"{record.levelname} " if grave else ""


class _BoundedQueue(QueueHandler):
    """Puts lines into a queue without ever waiting."""

    queue: "SimpleQueue[logging.LogRecord]"  # its put may be interrupted by a signal handler's

    def __init__(self) -> None:
        super().__init__(SimpleQueue())
        self._left_out = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        """Put a formatted line into the queue, or leave it out if too many wait."""
        if getattr(record, "filed", False):
            return
        if self.queue.qsize() >= WAITING_LINES:
            self._left_out += 1
            return
        if self._left_out:
            record.msg = f"({self._left_out} lines were left out: nothing took them)\n{record.msg}"
            self._left_out = 0
        self.queue.put(record)

    def printed(self, text: str, stream: TextIO) -> None:
        """Put text into the queue that was printed to this stream."""
        self.enqueue(logging.makeLogRecord({"msg": text, "stream": stream}))


class _Writer(QueueListener):
    """Writes the lines of a queue in a thread of its own.

    To `sys.stderr` as it is at that moment, since a panel replaces it while it is on the screen.
    """

    def __init__(self, lines: _BoundedQueue, stream: TextIO | None) -> None:
        super().__init__(lines.queue)
        self._lines = lines.queue
        self._stream = stream
        self._terminals: dict[TextIO, TextIO] = {}  # by their stand-ins
        self._lasting = LastingLine()
        if stream is None:
            sys.stdout, sys.stderr = (self._stand_in(s, lines) for s in (sys.stdout, sys.stderr))

    def dequeue(self, block: bool) -> logging.LogRecord:
        """Wait for a line; meanwhile a terminal shows how long the work of the last one takes."""
        while True:
            try:
                return self._lines.get(block, TICK_S if self._lasting.begun else None)
            except Empty:
                if not block:
                    raise
                with suppress(OSError, ValueError):
                    self._lasting.tick()

    def handle(self, record: logging.LogRecord) -> None:
        """Write one line. A closed terminal takes none, and the run goes on."""
        stream = getattr(record, "stream", None)
        text = record.msg if stream is not None else f"{record.msg}\n"
        lasting = getattr(record, "lasting", False)
        stream = stream or self._stream or sys.stderr
        with suppress(OSError, ValueError):
            self._lasting.end()
            out = direct(self._terminals.get(stream, stream))
            if lasting and rewritable(out):
                self._lasting.begin(out, record.msg)
            else:
                out.write(text)
                out.flush()

    def finish(self) -> None:
        """Write the lines that wait; end without them if a terminal does not take them."""
        for stream in self._terminals:
            stream.flush()
        stopping = threading.Thread(target=self._finish, daemon=True)
        stopping.start()
        stopping.join(PATIENCE_S if self._terminals else None)
        sys.stdout, sys.stderr = (self._terminals.get(s, s) for s in (sys.stdout, sys.stderr))

    def _finish(self) -> None:
        self.stop()
        with suppress(OSError, ValueError):
            self._lasting.end()

    def _stand_in(self, stream: TextIO, lines: _BoundedQueue) -> TextIO:
        made = stand_in(stream, lambda text: lines.printed(text, made))
        if made is not stream:
            self._terminals[made] = stream
        return made
