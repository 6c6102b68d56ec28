"""A pseudo-terminal for tests: a person's side and a program's."""

import codecs
import fcntl
import os
import pty
import select
import struct
import termios
from contextlib import suppress
from typing import TextIO

from support.waiting import eventually


class Terminal:
    """A terminal of this size: `stream` is the program's side, `seen` all that it showed."""

    def __init__(self, width: int = 80, height: int = 24) -> None:
        self.front, outside = pty.openpty()
        self.resize(width, height)
        self.stream: TextIO = os.fdopen(outside, "w", encoding="utf-8")
        self.seen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end within a letter

    def resize(self, width: int, height: int) -> None:
        """Change its size, as when a window is dragged."""
        fcntl.ioctl(self.front, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def stop(self) -> None:
        """Take nothing from now on, as after Ctrl-S."""
        termios.tcflow(self.stream, termios.TCOOFF)

    def go_on(self) -> None:
        """Take text again, as after Ctrl-Q."""
        termios.tcflow(self.stream, termios.TCOON)

    def vanish(self) -> None:
        """Close the person's side: a window is closed, a connection breaks."""
        os.close(self.front)
        self.front = -1

    def read(self) -> str:
        """Return what was shown since the last time."""
        parts = []
        while self.front >= 0 and select.select([self.front], [], [], 0.02)[0]:
            parts.append(os.read(self.front, 1 << 16))
        new = self._decoder.decode(b"".join(parts))
        self.seen += new
        return new

    def shows(self, text: str) -> str:
        """Wait for this text; return all that was shown since the last call."""
        shown = []

        def found() -> bool:
            shown.append(self.read())
            return text in "".join(shown)

        eventually(found, text)
        return "".join(shown)

    def has_shown(self, text: str) -> bool:
        """Return True if this text was ever shown."""
        self.read()
        return text in self.seen

    def close(self) -> None:
        """Close both sides."""
        with suppress(OSError, termios.error):  # it may have vanished
            self.go_on()
        self.read()
        with suppress(OSError):
            self.stream.close()
        if self.front >= 0:
            os.close(self.front)
