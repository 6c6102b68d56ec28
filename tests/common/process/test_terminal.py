"""A terminal that takes nothing does not hold up whoever writes to it."""

import os
import pty
import select
import sys
import termios
import threading
from collections.abc import Iterator

import pytest

from farflung.common.process.terminal import HELD_BYTES, Lenient, unblocked


class Window:
    """A pseudo-terminal from both sides: `front` for whoever sits before it, `stream` for the program."""

    def __init__(self) -> None:
        self.front, outside = pty.openpty()
        self.stream = os.fdopen(outside, "w", encoding="utf-8")

    def read(self) -> str:
        """What is on the screen and was not read before."""
        parts = []
        while select.select([self.front], [], [], 0.05)[0]:
            parts.append(os.read(self.front, 1 << 16))
        return b"".join(parts).decode()


@pytest.fixture
def window() -> Iterator[Window]:
    """It is open."""
    window = Window()
    yield window
    termios.tcflow(window.stream, termios.TCOON)
    window.read()
    window.stream.close()
    os.close(window.front)


@pytest.mark.slow
def test_a_stopped_terminal_does_not_hold_up_whoever_writes(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Ctrl-S far more is written than anybody holds; after Ctrl-Q what was held appears, and how much was left out."""
    monkeypatch.setattr(sys, "stdout", window.stream)
    with unblocked():
        termios.tcflow(window.stream, termios.TCOOFF)  # what Ctrl-S does, in its time
        for number in range(3):
            print(number)
        sys.stdout.write("x" * HELD_BYTES + "\n")
        assert window.read() == ""
        termios.tcflow(window.stream, termios.TCOON)
        print("goes on")
        shown = window.read()
    assert [line for line in shown.splitlines() if "x" not in line] == [
        "0",
        "1",
        "2",
        f"({HELD_BYTES + 1} bytes were left out while this terminal took nothing)",
        "goes on",
    ]
    assert sys.stdout is window.stream


@pytest.mark.slow
def test_a_terminal_that_nobody_reads_does_not_hold_up_whoever_writes(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its buffer and ours fill up. In the end there is patience for a moment only."""
    monkeypatch.setattr(sys, "stdout", window.stream)
    with unblocked():
        for _ in range(100):
            print("x" * 4000)
    assert len(window.read()) >= 4000


def test_the_shell_keeps_a_terminal_that_waits(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever else has it open is not told to come back later."""
    monkeypatch.setattr(sys, "stdout", window.stream)
    with unblocked():
        assert sys.stdout.isatty()
        assert not os.get_blocking(sys.stdout.fileno())
        assert os.get_blocking(window.stream.fileno())


def test_a_file_is_written_as_ever(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Where it is no terminal, nothing may be left out."""
    with (tmp_path / "log").open("w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        with unblocked():
            assert sys.stdout is file


def test_any_thread_may_write() -> None:
    """Whole lines, none lost."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    terminal = Lenient(writing)
    threads = [
        threading.Thread(target=lambda: [terminal.write(b"0123456\n") for _ in range(50)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert terminal.drain(1.0)
    assert os.read(reading, 1 << 16) == b"0123456\n" * 200
    terminal.close()
    os.close(reading)
