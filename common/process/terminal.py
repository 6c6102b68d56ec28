"""Terminals that take nothing, stopped with Ctrl-S or unread: a thread waits, not the run."""

import io
import os
import threading
import time
from collections.abc import Callable
from typing import TextIO, cast

SECONDS = " … 99999 s"  # the room for them
PATIENCE_S = 1.0  # at the end, for a terminal to take what is left


class Direct(io.TextIOBase):
    """Writes to the descriptor of a stream, past its buffer.

    A thread that waits in the buffer holds its lock, and the interpreter aborts at its end where
    the buffer of standard output or error is locked.
    """

    def __init__(self, like: TextIO) -> None:
        self._like = like

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream."""
        return self._like.encoding or "utf-8"

    def write(self, text: str) -> int:
        """Write all of the text; wait until it is taken."""
        data = text.encode(self.encoding, "backslashreplace")
        while data:
            data = data[os.write(self.fileno(), data) :]
        return len(text)

    def fileno(self) -> int:
        """Return the descriptor of the stream."""
        return self._like.fileno()

    def isatty(self) -> bool:
        """Return True for a terminal."""
        return self._like.isatty()


class LastingLine:
    """A line at the end of a terminal, with the seconds for which its work has gone on."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._out: TextIO | None = None
        self._text, self._since = "", 0.0

    @property
    def begun(self) -> bool:
        """True between `begin` and `end`."""
        return self._out is not None

    def begin(self, out: TextIO, text: str) -> None:
        """Write the line, without its end. The seconds of one that wraps stand below it."""
        columns = os.get_terminal_size(out.fileno()).columns or 80
        if len(text) + len(SECONDS) >= columns:
            out.write(f"{text}\n")
            text = "  so far"
        self._out, self._text, self._since = out, text, self._clock()
        out.write(f"{text} …")

    def tick(self) -> None:
        """Write it again, with its seconds."""
        if self._out is not None:
            self._out.write(f"\r{self._text} … {self._clock() - self._since:.0f} s")

    def end(self) -> None:
        """End the line, if there is one."""
        out, self._out = self._out, None
        if out is not None:
            out.write("\n")


class Lines(Direct):
    """Stands in for a terminal and never waits: hands over line by line. Any thread may write."""

    def __init__(self, like: TextIO, take: Callable[[str], None]) -> None:
        super().__init__(like)
        self._take = take
        self._rest = ""
        self._lock = threading.RLock()  # a signal handler may write, too

    def write(self, text: str) -> int:
        """Hand over all lines that this text completes."""
        with self._lock:
            *lines, self._rest = (self._rest + text).split("\n")
            for line in lines:
                self._take(f"{line}\n")
        return len(text)

    def flush(self) -> None:
        """Hand over the beginning of a line."""
        with self._lock:
            rest, self._rest = self._rest, ""
            if rest:
                self._take(rest)


def direct(stream: TextIO) -> TextIO:
    """Return the way past the buffer of a file or terminal; any other stream as it is.

    A notebook's stream has a descriptor too, but not that of its cell.
    """
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    try:
        stream.fileno()
    except (OSError, ValueError, AttributeError):
        return stream
    return cast(TextIO, Direct(stream))


def rewritable(out: TextIO) -> bool:
    """Return True for a terminal that takes a line twice: not where a panel takes whole lines."""
    way: object = out
    return isinstance(way, Direct) and not isinstance(way, Lines) and way.isatty()


def stand_in(stream: TextIO, take: Callable[[str], None]) -> TextIO:
    """Return a stand-in for a terminal; any other stream as it is, since it must lose nothing."""
    try:
        return cast(TextIO, Lines(stream, take)) if stream.isatty() else stream
    except ValueError:  # it is closed
        return stream
