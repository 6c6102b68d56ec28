"""Ways to write to a terminal: past the buffer of a stream, and through a stand-in."""

import fcntl
import io
import os
import pty
import select
import struct
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO, cast

import pytest

from farflung.common.process.terminal import Direct, LastingLine, Lines, direct, stand_in


@pytest.fixture
def terminal() -> Iterator[tuple[int, TextIO]]:
    """The side of the person, and the stream of the program."""
    front, outside = pty.openpty()
    stream = os.fdopen(outside, "w", encoding="utf-8")
    yield front, stream
    stream.close()
    os.close(front)


def test_stand_in_takes_whole_lines_at_once(terminal: tuple[int, TextIO]) -> None:
    """A line that is printed in pieces stays one line; a flush hands over a beginning."""
    lines: list[str] = []
    stream = stand_in(terminal[1], lines.append)
    stream.write("one\ntw")
    assert lines == ["one\n"]
    print("o", file=stream)
    print("three", end="", file=stream, flush=True)
    assert lines == ["one\n", "two\n", "three"]


def test_stand_in_is_the_terminal_to_libraries(terminal: tuple[int, TextIO]) -> None:
    """Its descriptor, encoding and kind are those of the terminal."""
    stream = stand_in(terminal[1], lambda line: None)
    assert stream.isatty()
    assert stream.fileno() == terminal[1].fileno()
    assert stream.encoding == "utf-8"


def test_files_have_no_stand_in() -> None:
    """A file or a closed stream loses nothing, so it stays as it is."""
    file, closed = io.StringIO(), io.StringIO()
    closed.close()
    assert stand_in(file, lambda line: None) is file
    assert stand_in(closed, lambda line: None) is closed


def test_any_thread_may_write_to_a_stand_in(terminal: tuple[int, TextIO]) -> None:
    """Whole lines, none lost."""
    taken: list[str] = []
    stream = Lines(terminal[1], taken.append)
    threads = [
        threading.Thread(target=lambda: [stream.write("0123456\n") for _ in range(50)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert taken == ["0123456\n"] * 200


def test_direct_way_passes_the_buffer(terminal: tuple[int, TextIO]) -> None:
    """The text is there without a flush; letters that the encoding lacks are escaped."""
    front, stream = terminal
    stream.reconfigure(encoding="ascii")  # type: ignore[attr-defined]
    assert isinstance(direct(stream), Direct)
    direct(stream).write("caf\u00e9\n")
    assert os.read(front, 100) == b"caf\\xe9\r\n"


def test_streams_without_a_descriptor_are_written_as_they_are() -> None:
    """As those of a notebook."""
    stream = io.StringIO()
    assert direct(stream) is stream


def test_way_past_the_buffer_is_for_files_only(tmp_path: Path) -> None:
    """A notebook's stream has the descriptor of its kernel, and shows lines in the cell."""

    class OfANotebook(io.TextIOBase):
        def fileno(self) -> int:
            return 2

    stream = cast(TextIO, OfANotebook())
    assert direct(stream) is stream
    with (tmp_path / "log").open("w") as file:
        assert isinstance(direct(file), Direct)


def shown(front: int, length: int) -> str:
    """Return what the terminal shows: so many characters or more, which may come in pieces."""
    text = ""
    while len(text.replace("\r\n", "\n")) < length and select.select([front], [], [], 30)[0]:
        text += os.read(front, 1 << 16).decode()
    return text.replace("\r\n", "\n")


def test_a_lasting_line_has_its_seconds(terminal: tuple[int, TextIO]) -> None:
    """It is written again from its beginning, and ended once."""
    front, stream = terminal
    fcntl.ioctl(front, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    now = iter([100.0, 103.2])
    line = LastingLine(lambda: next(now))
    out = direct(stream)
    line.begin(out, "loading")
    assert line.begun
    line.tick()
    line.end()
    line.end()
    assert not line.begun
    expected = "loading …\rloading … 3 s\n"
    assert shown(front, len(expected)) == expected


def test_a_line_that_wraps_has_its_seconds_below(terminal: tuple[int, TextIO]) -> None:
    """A terminal cannot go back to the beginning of a line of two rows."""
    front, stream = terminal
    fcntl.ioctl(front, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    now = iter([0.0, 12.0])
    line = LastingLine(lambda: next(now))
    line.begin(direct(stream), "waiting " * 6)
    line.tick()
    expected = f"{'waiting ' * 6}\n  so far …\r  so far … 12 s"
    assert shown(front, len(expected)) == expected
