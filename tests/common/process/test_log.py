"""Log lines: their form, their repetition, and terminals that take none."""

import ast
import io
import logging
import os
import pty
import re
import select
import sys
import termios
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.waiting import eventually, took_at_most

from farflung.common.process.log import (
    LASTING,
    WAITING_LINES,
    Log,
    Sparingly,
    once_every,
    start,
)
from farflung.common.process.text import LETTERS

ROOT, ROLES = Path(__file__).parents[3], ("actor", "broker", "common", "farflung", "learner")


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def log(stream: io.StringIO, now: list[float]) -> Iterator[Log]:
    before = logging.getLogger().level
    log = start("actor", "box-1f03a2", "info", stream, lambda: now[0])
    yield log
    log.stop()
    logging.getLogger().setLevel(before)


def test_log_line_has_time_role_name_process_and_version(log: Log, stream: io.StringIO) -> None:
    """The version is the one that the process holds at that moment."""
    logging.getLogger("farflung.actor.connection.sockets").info("hello %s", "there")
    log.who.version = "1.42"
    logging.getLogger("farflung.actor.connection.sockets").warning("again")
    logging.getLogger("farflung.actor.connection.sockets").debug("too fine")
    log.stop()
    first, second = stream.getvalue().splitlines()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z actor box-1f03a2\[\d+\] - INFO hello there", first
    )
    assert re.fullmatch(r"\S+Z actor box-1f03a2\[\d+\] 1\.42 WARNING again", second)


def test_foreign_text_forges_no_line_and_steers_no_terminal(
    log: Log, stream: io.StringIO, tmp_path: Path
) -> None:
    """Neither in a message, nor as an argument, nor in the text of an exception."""
    forged = "\n2026-03-01T12:00:00.123Z learner x[1] - INFO all is well\x1b[2J\r\x9b\u2028"
    log.copy_to(tmp_path / "actor.log")
    ours = logging.getLogger("farflung.actor.x")
    ours.warning(f"message {forged}")  # the attack
    ours.warning("argument %s", forged)
    ours.warning("more than enough: %s", "x" * (3 << 20))
    try:
        raise ValueError(forged)
    except ValueError:
        ours.exception("raised")
    log.stop()
    lines = stream.getvalue().split("\n")
    assert all(line.isprintable() for line in lines)
    begun = [line for line in lines if line and not line.startswith("  ")]
    assert len(begun) == 4
    assert all(re.match(r"\S+Z actor box-1f03a2\[\d+\] - (WARNING|ERROR) ", line) for line in begun)
    assert max(map(len, lines)) <= LETTERS
    assert "  ValueError: " in lines
    assert (tmp_path / "actor.log").read_text() == stream.getvalue()


def handlers(source: str) -> set[str]:
    """Return the names in a module that write log lines past ours."""
    past = {"basicConfig", "StreamHandler", "FileHandler", "Formatter", "lastResort"}
    nodes = [*ast.walk(ast.parse(source))]
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return (attributes | names) & past | names & {"print"}


def test_all_lines_pass_the_one_place_that_makes_them_safe() -> None:
    """No other module has a handler, a formatter or a print of its own."""
    assert handlers("import logging\nlogging.basicConfig()\nprint(1)") == {"basicConfig", "print"}
    modules = [path for role in ROLES for path in sorted((ROOT / role).rglob("*.py"))]
    found = {path.name for path in modules if handlers(path.read_text())}
    assert found == {"log.py"}


def test_end_of_a_log_leaves_the_level_as_it_was(stream: io.StringIO) -> None:
    """A log of warnings alone hides no line of the log after it."""
    ours = logging.getLogger("farflung")
    before = ours.level
    with start("learner", "first", "warning", stream):
        assert ours.level == logging.WARNING
    assert ours.level == before


def test_log_lines_are_copied_to_a_file(log: Log, stream: io.StringIO, tmp_path: Path) -> None:
    """A run folder keeps the same lines; nothing is written after the log has stopped."""
    log.copy_to(tmp_path / "logs" / "learner.log")
    logging.getLogger("farflung.learner.x").info("kept")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("a library warns", stacklevel=1)
    log.stop()
    logging.getLogger("farflung.learner.x").info("too late")
    assert (tmp_path / "logs" / "learner.log").read_text() == stream.getvalue()
    assert "kept" in stream.getvalue()
    assert "a library warns" in stream.getvalue()
    assert "too late" not in stream.getvalue()


def test_log_follows_a_replaced_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A panel that takes over stderr gets the lines that come while it is there."""
    log = start("learner", "run")
    panel = io.StringIO()
    logging.getLogger("farflung.learner.x").warning("before")
    eventually(lambda: "before" in capsys.readouterr().err)
    monkeypatch.setattr("sys.stderr", panel)
    logging.getLogger("farflung.learner.x").warning("meanwhile")
    log.stop()
    assert "meanwhile" in panel.getvalue()


class Window:
    """A pseudo-terminal: `front` is the person's side, `stream` the program's."""

    def __init__(self) -> None:
        self.front, outside = pty.openpty()
        self.stream = os.fdopen(outside, "w", encoding="utf-8")
        self.shown = ""

    def is_ours(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make it standard output and error. In the test: pytest sets its own before each phase."""
        monkeypatch.setattr(sys, "stdout", self.stream)
        monkeypatch.setattr(sys, "stderr", self.stream)

    def shows(self, text: str) -> bool:
        """Read the screen; return True once this text was on it."""
        while select.select([self.front], [], [], 0.02)[0]:
            if not (data := os.read(self.front, 1 << 16)):
                break  # a test closed it
            self.shown += data.decode()
        return text in self.shown


@pytest.fixture
def window() -> Iterator[Window]:
    window = Window()
    yield window
    with suppress(termios.error):  # a test closed it
        termios.tcflow(window.stream, termios.TCOON)
    window.shows("")
    window.stream.close()
    os.close(window.front)


@pytest.mark.slow
def test_a_stopped_terminal_holds_up_neither_log_nor_prints(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines beyond a bound are counted; after Ctrl-Q those that waited appear, with the count."""
    window.is_ours(monkeypatch)
    with start("learner", "run"):
        termios.tcflow(window.stream, termios.TCOOFF)  # as Ctrl-S does
        for number in range(WAITING_LINES):
            logging.getLogger("farflung.learner.x").info("line %d", number)
        for _ in range(7):
            print("x" * 5000)
        assert not window.shows("line")
        termios.tcflow(window.stream, termios.TCOON)
        assert eventually(lambda: window.shows("learner: line 900"))
        print("goes on")
    assert window.shows("goes on")
    left_out = int(re.search(r"\((\d+) lines were left out", window.shown)[1])
    assert left_out in (6, 7)  # one may fit in the place of the line that is being written
    assert window.shown.count("x" * 5000) == 7 - left_out
    assert sys.stdout is sys.stderr is window.stream


def test_lines_on_a_terminal_are_short_and_those_in_a_file_whole(
    window: Window, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A person sees the time of the day, the role, and the level of what is not all right."""
    window.is_ours(monkeypatch)
    with start("learner", "run") as log:
        log.copy_to(tmp_path / "log")
        logging.getLogger("farflung.learner.x").info("local-0 joined")
        logging.getLogger("farflung.learner.x").warning("local-0 died")
    assert window.shows("died\r\n")
    first, second = window.shown.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d learner: local-0 joined", first)
    assert re.fullmatch(r"\d\d:\d\d:\d\d learner: WARNING local-0 died", second)
    assert re.search(r"Z learner run\[\d+\] - INFO local-0 joined", (tmp_path / "log").read_text())


@pytest.mark.slow
def test_a_terminal_shows_how_long_work_goes_on(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line is written again until the next one, which begins on a line of its own."""
    window.is_ours(monkeypatch)
    with start("learner", "run"):
        ours = logging.getLogger("farflung.learner.x")
        ours.info("loading", extra=LASTING)
        assert eventually(lambda: window.shows("learner: loading … 1 s"))
        ours.info("loaded")
        assert eventually(lambda: window.shows("loaded"))
        print("and more")
        ours.info("closing", extra=LASTING)
    assert eventually(lambda: window.shows("closing …\r\n"))
    assert re.search(r" 1 s\r\n\S+ learner: loaded\r\nand more\r\n", window.shown)


def test_a_pipe_gets_lasting_lines_once(log: Log, stream: io.StringIO) -> None:
    """A file of lines stays one."""
    logging.getLogger("farflung.learner.x").info("loading", extra=LASTING)
    log.stop()
    assert stream.getvalue().endswith(" INFO loading\n")


@pytest.mark.slow
def test_a_log_ends_though_a_terminal_takes_nothing(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer gets a second; the lines in the file are whole."""
    window.is_ours(monkeypatch)
    began = time.monotonic()
    with start("learner", "run"):
        termios.tcflow(window.stream, termios.TCOOFF)
        print("last words")
    assert took_at_most(time.monotonic() - began, 3.0)
    assert not window.shows("last words")


def test_a_closed_terminal_ends_nothing(
    window: Window, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The lines are in the file."""
    window.is_ours(monkeypatch)
    with start("learner", "run") as log:
        log.copy_to(tmp_path / "log")
        os.close(window.front)
        print("to the void")
        logging.getLogger("farflung.learner.x").warning("kept")
    window.front = os.open(os.devnull, os.O_RDONLY)
    assert "kept" in (tmp_path / "log").read_text()


def test_repeated_log_line_is_written_now_and_then_and_counted(now: list[float]) -> None:
    """Lines with one text are one kind; the next written one has the count of those held back."""
    sparingly = Sparingly(lambda: now[0])

    def written(text: str, *arguments: object, marked: bool = True) -> tuple[bool, int]:
        record = logging.LogRecord(
            "farflung.actor.connection.sockets", logging.WARNING, "", 1, text, arguments, None
        )
        record.__dict__.update(once_every(10) if marked else {})
        return sparingly.filter(record), getattr(record, "held", 0)

    assert written("%s is silent", "a") == (True, 0)
    assert written("%s is silent", "b")[0] is False
    assert written("something else") == (True, 0)
    assert written("%s is silent", "c", marked=False) == (True, 0)
    now[0] = 9.9
    assert written("%s is silent", "a")[0] is False
    now[0] = 10.0
    assert written("%s is silent", "a") == (True, 2)
    now[0] = 20.0
    assert written("%s is silent", "a") == (True, 0)


def test_count_of_held_back_lines_stands_in_every_output(
    log: Log, stream: io.StringIO, now: list[float], tmp_path: Path
) -> None:
    """The stream and the file count for themselves and say the same."""
    log.copy_to(tmp_path / "log")
    link = logging.getLogger("farflung.actor.connection.sockets")
    for now[0] in (0.0, 1.0, 2.0, 11.0):
        link.warning("at %g", now[0], extra=once_every(10))
    log.stop()
    assert [line.rpartition("WARNING ")[2] for line in stream.getvalue().splitlines()] == [
        "at 0",
        "at 11 (2 more like this before)",
    ]
    assert (tmp_path / "log").read_text() == stream.getvalue()
