"""The screen: which one is chosen, and what it writes. The panel is tried on a real pseudo-terminal."""

import fcntl
import io
import json
import os
import pty
import select
import struct
import sys
import termios
from collections.abc import Iterator
from typing import TextIO

import pytest

from farflung.learner.observe.screen import can_draw, line, screen
from farflung.learner.observe.status import (
    ActorStatus,
    EvaluationStatus,
    Status,
    WaitingStatus,
    from_document,
)

STATUS = Status(
    run="r",
    seconds=151.0,
    steps=1_243_904,
    steps_target=2_000_000,
    return_mean=471.3,
    evaluation=EvaluationStatus(496.0, 20, 3400, 500.0),
    steps_per_second=18_402.0,
    updates_per_second=2_287.0,
    ratio_wanted=8.0,
    ratio_held=7.93,
    version=3417,
    actors=(ActorStatus("cpu01", "running"),),
)


class Terminal:
    """A pseudo-terminal: what is written to `stream` is read back with `read`."""

    def __init__(self, width: int, height: int) -> None:
        self._inside, outside = pty.openpty()
        self.resize(width, height)
        self.stream: TextIO = os.fdopen(outside, "w", encoding="utf-8")

    def resize(self, width: int, height: int) -> None:
        """Another size, as when a window is dragged."""
        fcntl.ioctl(self._inside, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read(self) -> str:
        """Everything written since."""
        parts = []
        while select.select([self._inside], [], [], 0)[0]:
            parts.append(os.read(self._inside, 1 << 16))
        return b"".join(parts).decode()

    def close(self) -> None:
        """Both ends."""
        os.close(self._inside)
        try:
            self.stream.close()
        except OSError:
            assert not self.stream.isatty()  # the other end is gone: nothing is left to flush to


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal of 80 by 24 that knows colours."""
    for name in (
        "COLUMNS",
        "LINES",
        "NO_COLOR",
        "FORCE_COLOR",
        "TTY_COMPATIBLE",
        "TTY_INTERACTIVE",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    made = Terminal(80, 24)
    yield made
    made.close()


def test_a_line_says_the_same_in_plain_words() -> None:
    """What the panel shows, for logs."""
    assert line(STATUS) == (
        "2 min 31 s, run, steps 1,243,904 of 2,000,000, return 471.3, evaluation 496.0, 18,402 steps/s, 2,287 updates/s, "
        "ratio 7.93 of 8, version 3,417, actors 1"
    )


def test_a_line_names_what_waits_and_what_is_refused() -> None:
    """And leaves out what is not known."""
    status = Status(
        run="r", waiting=WaitingStatus("updates\x1bwait", 1, 1.0), refused={"schema": 2}, lost=1
    )
    assert line(status) == (
        "0 s, run, steps 0, return -, - steps/s, - updates/s, ratio -, version 0, actors 0, waiting: updates wait, refused or lost 3"
    )


def test_json_is_one_document_a_line() -> None:
    """Machines read it back, one line each."""
    stream = io.StringIO()
    shown = screen("json", stream)
    shown.show(STATUS)
    shown.close(STATUS)
    documents = stream.getvalue().splitlines()
    assert [from_document(document) for document in documents] == [STATUS, STATUS]
    assert json.loads(documents[0])["steps"] == 1_243_904


def test_elsewhere_than_on_a_terminal_lines_are_written() -> None:
    """A file gets no frames."""
    stream = io.StringIO()
    shown = screen("auto", stream)
    shown.show(STATUS)
    assert stream.getvalue() == line(STATUS) + "\n"


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TERM=dumb, as in an editor's shell."""
    assert can_draw(terminal.stream)
    monkeypatch.setenv("TERM", "dumb")
    assert not can_draw(terminal.stream)


def test_a_terminal_that_knows_no_bars_gets_lines(terminal: Terminal) -> None:
    """Bars need UTF-8."""
    terminal.stream.reconfigure(encoding="ascii")  # type: ignore[attr-defined]
    assert not can_draw(terminal.stream)


def test_the_panel_draws_over_itself_and_stays_at_the_end(terminal: Terminal) -> None:
    """The second frame goes up to the first's beginning; after closing the cursor is visible and below."""
    shown = screen("auto", terminal.stream)
    shown.show(STATUS)
    first = terminal.read()
    assert "1,243,904 of 2,000,000" in first
    shown.show(Status(run="r", seconds=152.0, steps=1_300_000))
    second = terminal.read()
    assert "\x1b[1A" in second
    assert "1,300,000" in second
    shown.close(Status(run="r", seconds=152.1, steps=1_300_001))
    last = terminal.read()
    assert "1,300,001" in last
    assert last.endswith("\n\x1b[?25h")


def test_the_cursor_is_never_left_hidden(terminal: Terminal) -> None:
    """A learner that is killed cannot bring it back."""
    screen("panel", terminal.stream).show(STATUS)
    drawn = terminal.read()
    assert drawn.rfind("\x1b[?25h") > drawn.rfind("\x1b[?25l")


def test_the_panel_follows_the_size_of_its_terminal(terminal: Terminal) -> None:
    """After a change the screen is cleared, since the terminal has wrapped the old frame."""
    shown = screen("panel", terminal.stream)
    shown.show(STATUS)
    terminal.read()
    terminal.resize(60, 14)
    shown.show(Status(run="r", seconds=152.0, steps=7))
    drawn = terminal.read()
    assert "\x1b[2J" in drawn
    assert "╭" in drawn
    assert "─" * 60 not in drawn


def test_lines_of_others_scroll_past_above_the_panel(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is logged to the same terminal does not tear the frame: it is written, then the frame anew."""
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    shown = screen("panel", terminal.stream)
    shown.show(STATUS)
    terminal.read()
    sys.stderr.write("an actor joined\n")
    written = terminal.read()
    assert written.index("an actor joined") < written.index("╭")
    shown.close(STATUS)
    assert sys.stderr is terminal.stream


def test_a_vanished_terminal_does_not_end_the_run(terminal: Terminal) -> None:
    """The window was closed: the outlet says so and goes on."""
    shown = screen("panel", terminal.stream)
    shown.show(STATUS)
    os.close(terminal._inside)
    shown.show(Status(run="r", seconds=152.0))
    shown.close(Status(run="r", seconds=153.0))
    terminal._inside = os.open(os.devnull, os.O_RDONLY)
