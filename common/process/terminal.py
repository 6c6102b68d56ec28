"""A terminal that never makes a process wait: stopped with Ctrl-S, or read by nobody, it must not stop a training."""

import io
import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

HELD_BYTES = 1 << 16  # of what the terminal has not taken; what comes on top is left out
PATIENCE_S = 1.0  # at the end, for the terminal to take what is held


@contextmanager
def unblocked() -> Iterator[None]:
    """Within it, standard output and error do not wait where they are terminals. What these do not take is held, then left out."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = within = _reopened(sys.stdout), _reopened(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for terminal in within:
            if isinstance(terminal, _Terminal):
                terminal.lenient.drain(PATIENCE_S)
                terminal.close()


def _reopened(stream: TextIO) -> TextIO:
    """The same terminal, opened another time: not to wait is a property of the opening, and the shell's own must keep waiting."""
    try:
        if not stream.isatty():
            return stream
        stream.flush()
        descriptor = os.open(os.ttyname(stream.fileno()), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except (
        OSError,
        ValueError,
    ):  # a terminal of another namespace, or none that is open: as it is, then
        return stream
    return _Terminal(Lenient(descriptor), stream)


class Lenient(io.RawIOBase):
    """Takes whatever is written, and passes on what its descriptor takes at once. Any thread may write."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._held = bytearray()
        self._left_out = 0  # bytes
        self._lock = threading.RLock()  # a signal handler may write, too

    def write(self, data: Any) -> int:
        """Hold these bytes until they are taken, or leave them out as a whole: half a frame would confuse a terminal."""
        with self._lock:
            self._pass_on()
            if len(self._held) + len(data) > HELD_BYTES:
                self._left_out += len(data)
                return len(data)
            if self._left_out:
                self._held += (
                    b"(%d bytes were left out while this terminal took nothing)\n" % self._left_out
                )
                self._left_out = 0
            self._held += data
            self._pass_on()
            return len(data)

    def drain(self, patience_s: float) -> bool:
        """Wait at most so long until everything that is held was taken; gives whether it was."""
        end = time.monotonic() + patience_s
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        with self._lock, suppress(OSError):  # whoever has gone takes nothing any more
            self._pass_on()
            while self._held and (left_s := end - time.monotonic()) > 0:
                if poll.poll(left_s * 1000):
                    self._pass_on()
        return not self._held

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Let go of the terminal."""
        if not self.closed:
            super().close()
            os.close(self._descriptor)

    def _pass_on(self) -> None:
        try:
            while self._held:
                del self._held[: os.write(self._descriptor, self._held)]
        except BlockingIOError:
            return  # it takes no more for now
        except OSError:
            self._held.clear()
            raise


class _Terminal(io.TextIOWrapper):
    """Text for a lenient terminal, in the encoding of another stream."""

    def __init__(self, lenient: Lenient, like: TextIO) -> None:
        raw: Any = lenient  # typeshed wants a buffer; a raw stream serves
        super().__init__(raw, like.encoding, like.errors, line_buffering=True, write_through=True)
        self.lenient = lenient
