"""The live panel: frames drawn over one another by a thread of its own; printed lines scroll past.

Training hands over a status and goes on. A terminal that is stopped with Ctrl-S, or unread, makes
the thread wait; when it takes text again, the thread draws the newest status.
"""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Generic, TextIO, cast

from rich.console import Console
from rich.control import Control
from rich.live_render import LiveRender
from rich.panel import Panel
from rich.segment import ControlType
from rich.text import Text

from farflung.common.process.terminal import PATIENCE_S, Direct, stand_in
from farflung.common.protocol.messages import State
from farflung.learner.observe.sinks import S, Tolerant

IDLE_S = 0.5
AGE_S = 0.7  # of a line: the frame below it must not be older ("box-1 joined", "no actor yet")
LINES = 1000  # that wait for the terminal; older ones are counted and left out
HINT = "Ctrl-C finishes and saves"
# The cursor waits below the frame, where the terminal may echo a ^C, and then moves back up.
BACK = Control(
    ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)
)


class LivePanel(Generic[S]):
    """A panel on a terminal, from the first status to `close`."""

    def __init__(self, stream: TextIO, draw: Callable[[S, int, int, str], Panel]) -> None:
        self._frame_of = draw
        self._stream = stream
        self._terminal = Direct(stream)
        self._console = Console(file=cast(TextIO, self._terminal))
        self._frame = LiveRender(Text())
        self._size = terminal_size(stream)
        self._newest: S | None = None
        self._lines: deque[tuple[float, str]] = deque(maxlen=LINES)  # by the time they came
        self._left_out = 0
        self._wake, self._over = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="panel", daemon=True)
        self._tolerant = Tolerant("the panel")

    def show(self, status: S) -> None:
        """Hand over a status; it replaces one that waits to be drawn."""
        self._newest = status
        self._wake.set()
        if self._thread.ident is None:
            self._before = sys.stdout, sys.stderr
            sys.stdout, sys.stderr = (stand_in(stream, self._take) for stream in self._before)
            self._thread.start()

    def close(self) -> None:
        """Keep the last frame, below it the cursor. A stopped terminal gets a second for it."""
        self._over = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(PATIENCE_S)
            sys.stdout, sys.stderr = self._before
        sys.stderr.write(self._pending(0.0))

    def _take(self, line: str) -> None:
        self._left_out += len(self._lines) == LINES
        self._lines.append((time.monotonic(), line))

    def _pending(self, age_s: float) -> str:
        """Take the lines that are at least this old."""
        until = time.monotonic() - age_s
        left_out, self._left_out = self._left_out, 0
        lines = [f"({left_out} lines were left out: nothing took them)\n"] if left_out else []
        while self._lines and self._lines[0][0] <= until:
            lines.append(self._lines.popleft()[1])
        return "".join(lines)

    def _run(self) -> None:
        over = False
        while not over:
            self._wake.wait(IDLE_S)
            self._wake.clear()
            over = self._over  # before drawing, so that the last status is drawn
            self._tolerant(partial(self._draw, 0.0 if over else AGE_S))

    def _draw(self, age_s: float) -> None:
        """Draw the newest status, or the old one again, below the lines that wait."""
        status, self._newest = self._newest, None
        lines = self._pending(age_s).rstrip("\n")
        if status is None and not lines:
            return
        with self._console.capture() as shown:
            self._fit()
            if self._frame.last_render_height:
                self._console.print(BACK, self._frame.position_cursor(), end="", sep="")
            if lines:
                self._console.print(Text.from_ansi(lines))
            if status is not None:
                hint = HINT if status.state == State.RUN else ""
                self._frame.set_renderable(self._frame_of(status, *self._room, hint))
            self._console.print(self._frame, end="")
            self._console.line()
        self._terminal.write(shown.get())  # all at once, so that nothing flickers

    @property
    def _room(self) -> tuple[int, int]:
        """Columns and lines of a frame; the cursor has a line of its own."""
        return self._size[0], self._size[1] - 1

    def _fit(self) -> None:
        size = terminal_size(self._stream)
        self._console.size = size  # rich would ask the terminal behind standard input
        if size != self._size:
            self._size = size
            self._console.clear()  # the terminal has wrapped the old frame: begin on an empty one


def terminal_size(stream: TextIO) -> tuple[int, int]:
    """Return columns and lines; 80 by 24 if there is no terminal, or one that reports no size."""
    columns, lines = os.get_terminal_size(stream.fileno()) if stream.isatty() else (0, 0)
    return columns or 80, lines or 24
