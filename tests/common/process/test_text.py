"""Texts of other programs: one line of bounded length, or lines that pass for none of ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farflung.common.process.errors import ConfigurationError, FarflungError, Refused
from farflung.common.process.text import INDENT, LETTERS, LINES, indented, printable

# Escapes, C1, line ends of all kinds, marks of direction, joiners, a lone surrogate, a backspace.
EVIL = "\x1b[2J\x9b2J\r\n\v\f\x1c\x85\u2028\u2029\u202e\u2066\u200f\u200d\ufeff\ud800\x08\x00\x7f"


def test_foreign_text_cannot_steer_a_terminal() -> None:
    """Escapes, backspaces and reversed text become spaces; the length stays."""
    evil = "a\x1b[2Jb\x08c\u202ed"
    assert printable(evil) == "a [2Jb c d"
    assert printable("größe 日本") == "größe 日本"
    assert printable(EVIL).replace(" ", "") == "[2J2J"
    assert len(printable(EVIL)) == len(EVIL)


def test_long_text_is_cut() -> None:
    """Three megabytes are 2000 letters, the last of which says that there was more."""
    assert printable("x" * LETTERS) == "x" * LETTERS
    assert printable("x" * (3 << 20)) == "x" * 1999 + "…"
    assert printable("abcdef", 4) == "abc…"


def test_lines_of_foreign_text_are_indented() -> None:
    """A forged line of a log does not begin where lines of a log begin."""
    forged = "it failed\n2026-03-01T12:00:00.123Z learner x[1] - INFO all is well\u2028  indented"
    assert indented(forged).splitlines() == [
        "it failed",
        "  2026-03-01T12:00:00.123Z learner x[1] - INFO all is well",
        "  indented",
    ]
    assert indented("") == ""


def test_last_of_very_many_lines_are_kept() -> None:
    """A traceback ends with its error."""
    lines = indented("\n".join(map(str, range(100_000)))).split("\n")
    assert len(lines) == LINES + 1
    assert lines[:3] == ["0", "  (99900 lines are left out)", "  99901"]
    assert lines[-1] == "  99999"


@given(st.text(st.characters(codec=None), max_size=60), st.integers(1, 3))
def test_texts_are_safe_once_and_for_all(text: str, times: int) -> None:
    """Every letter prints, lines are ours or indented, and a second time changes nothing."""
    text = text * times
    safe = indented(text)
    assert indented(safe) == safe
    assert printable(printable(text)) == printable(text)
    first, *others = safe.split("\n")
    assert first.isprintable()
    assert all(line.isprintable() and line.startswith(INDENT) for line in others)


@pytest.mark.parametrize(
    "made", [FarflungError, ConfigurationError, lambda text: Refused(text, text)]
)
def test_errors_have_safe_messages(made) -> None:
    """They end on a terminal, in a log, or at another machine."""
    error = made(f"{EVIL}\nlearner: all is well {'x' * (3 << 20)}")
    assert all(line.isprintable() for line in str(error).split("\n"))
    assert "\nlearner:" not in str(error)
    assert len(str(error)) < 2 * LETTERS + 50


def test_refusal_has_one_line() -> None:
    """Its parts are shown in sentences of others."""
    refusal = Refused("columns", "a\nb")
    assert (str(refusal), refusal.reason, refusal.detail) == ("columns: a b", "columns", "a b")
    assert str(Refused("columns")) == "columns"
