import io
import logging
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from farflung.common.process.log import Log, Sparingly, once_every, start


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


def test_a_line_has_time_role_name_process_and_version(log: Log, stream: io.StringIO) -> None:
    """The version is the one that the process holds at that moment."""
    logging.getLogger("farflung.actor.connection.sockets").info("hello %s", "there")
    log.who.version = "1.42"
    logging.getLogger("farflung.actor.connection.sockets").warning("again")
    logging.getLogger("farflung.actor.connection.sockets").debug("too fine")
    first, second = stream.getvalue().splitlines()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z actor box-1f03a2\[\d+\] - INFO hello there", first
    )
    assert re.fullmatch(r"\S+Z actor box-1f03a2\[\d+\] 1\.42 WARNING again", second)


def test_lines_are_copied_to_a_file(log: Log, stream: io.StringIO, tmp_path: Path) -> None:
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


def test_it_follows_a_replaced_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A panel that takes over stderr gets the lines that come while it is there."""
    log = start("learner", "run")
    panel = io.StringIO()
    logging.getLogger("farflung.learner.x").warning("before")
    monkeypatch.setattr("sys.stderr", panel)
    logging.getLogger("farflung.learner.x").warning("meanwhile")
    log.stop()
    assert "before" in capsys.readouterr().err
    assert "meanwhile" in panel.getvalue()


def test_a_repeated_line_is_written_once_in_a_while_and_counted(now: list[float]) -> None:
    """Lines with one text are one kind whatever their arguments; the next that is written says how many were held back."""
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


def test_a_held_back_count_stands_in_each_place(
    log: Log, stream: io.StringIO, now: list[float], tmp_path: Path
) -> None:
    """The stream and the file count for themselves and say the same."""
    log.copy_to(tmp_path / "log")
    link = logging.getLogger("farflung.actor.connection.sockets")
    for now[0] in (0.0, 1.0, 2.0, 11.0):
        link.warning("at %g", now[0], extra=once_every(10))
    assert [line.rpartition("WARNING ")[2] for line in stream.getvalue().splitlines()] == [
        "at 0",
        "at 11 (2 more like this before)",
    ]
    assert (tmp_path / "log").read_text() == stream.getvalue()
