"""The screen: which one is chosen, and what lines and JSON say."""

import io
import json
from dataclasses import replace

import pytest
from support.terminals import Terminal

from farflung.learner.observe.screen import can_draw, line, screen
from farflung.learner.observe.status import (
    ActorStatus,
    EvaluationStatus,
    GamesStatus,
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


def test_a_line_says_the_same_in_plain_words() -> None:
    """The same figures as on the panel, for logs."""
    assert line(STATUS) == (
        "2 min 31 s, run, env steps 1,243,904 of 2,000,000, return 471.3, evaluation 496.0, "
        "18,402 env steps/s, 2,287 updates/s, "
        "ratio 7.93 of 8, version 3,417, actors 1"
    )


def test_a_line_names_what_waits_and_what_is_refused() -> None:
    """And leaves out what is not known."""
    status = Status(
        run="r", waiting=WaitingStatus("updates\x1bwait", 1, 1.0), refused={"schema": 2}, lost=1
    )
    assert line(status) == (
        "0 s, run, env steps 0, return -, - env steps/s, - updates/s, ratio -, version 0, "
        "actors 0, "
        "waiting: updates wait, refused or lost 3"
    )


def test_a_line_has_the_games_of_a_run() -> None:
    """Their number, the share of points, and the rating once there is one."""
    games = GamesStatus(played=1200, wins=700, draws=100, losses=400, score=0.625, elo=131.4)
    assert ", games 1,200, score 0.62, rating 131, " in line(replace(STATUS, games=games))
    begun = replace(games, score=None, elo=None)
    assert ", games 1,200, 18,402 env steps/s" in line(replace(STATUS, games=begun))


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
