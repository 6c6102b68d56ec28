"""The live panel on a real pseudo-terminal."""

import dataclasses
import logging
import sys
import time
from collections.abc import Iterator

import pytest
from support.terminals import Terminal
from support.waiting import eventually, took_at_most

from farflung.learner.observe.live_panel import LINES, LivePanel
from farflung.learner.observe.panel import draw
from farflung.learner.observe.screen import screen
from farflung.learner.observe.status import ActorStatus, Status

STATUS = Status(run="r", seconds=151.0, steps=1_243_904, steps_target=2_000_000)


def at(steps: int, **values: object) -> Status:
    """A status of this moment."""
    return dataclasses.replace(STATUS, steps=steps, **values)


@pytest.fixture
def panel(terminal: Terminal) -> Iterator[LivePanel]:
    """It has not been shown anything yet. Its thread ends before its terminal is closed."""
    made = LivePanel(terminal.stream, draw)
    yield made
    terminal.go_on()
    made.close()
    eventually(lambda: terminal.read() == "" and not made._thread.is_alive())


def test_panel_draws_over_itself_and_stays_at_the_end(terminal: Terminal) -> None:
    """A frame goes up to the beginning of the last; in the end the cursor is below."""
    shown = screen("auto", terminal.stream)
    shown.show(STATUS)
    terminal.shows("1,243,904 of 2,000,000")
    shown.show(at(1_300_000, seconds=152.0))
    assert "\x1b[1A" in terminal.shows("1,300,000")
    shown.close(at(1_300_001, seconds=152.1))
    assert terminal.shows("1,300,001").endswith("\n")


def test_echo_of_a_key_does_not_tear_the_frame(terminal: Terminal, panel: LivePanel) -> None:
    """The terminal writes ^C where the cursor is: in the line below the frame, which is erased."""
    panel.show(STATUS)
    height = terminal.shows("╯\x1b[0m\r\n").count("\r\n")
    panel.show(at(7))
    drawn = terminal.shows("╯\x1b[0m\r\n")
    assert drawn.startswith("\r\x1b[2K\x1b[1A")
    assert drawn.count("\x1b[1A") == height


def test_hint_goes_when_the_learner_has_stopped(terminal: Terminal, panel: LivePanel) -> None:
    """There is nothing left to finish."""
    panel.show(STATUS)
    assert "Ctrl-C finishes and saves" in terminal.shows("╯")
    panel.show(at(7, state="stop"))
    assert "Ctrl-C" not in terminal.shows("╯")


def test_panel_never_hides_the_cursor(terminal: Terminal, panel: LivePanel) -> None:
    """A learner that is killed could not bring it back."""
    panel.show(STATUS)
    assert "\x1b[?25l" not in terminal.shows("╯")


def test_panel_follows_the_size_of_its_terminal(terminal: Terminal, panel: LivePanel) -> None:
    """After a change the screen is cleared, since the terminal has wrapped the old frame."""
    panel.show(STATUS)
    terminal.shows("╯")
    terminal.resize(60, 14)
    panel.show(at(7))
    drawn = terminal.shows("╯")
    assert "\x1b[2J" in drawn
    assert "─" * 60 not in drawn


def test_lines_of_others_scroll_past_above_the_panel(
    terminal: Terminal, panel: LivePanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that is printed does not tear the frame: first the line, then the frame again."""
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    panel.show(STATUS)
    terminal.shows("╯")
    print("an actor joined", file=sys.stderr)
    drawn = terminal.shows("╯")
    assert drawn.index("an actor joined") < drawn.index("╭")
    panel.close()
    assert sys.stderr is terminal.stream


def test_line_is_drawn_with_the_status_that_explains_it(
    terminal: Terminal, panel: LivePanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log says that an actor joined: no frame below it says that there is none."""
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    panel.show(STATUS)
    assert "no actor yet" in terminal.shows("╯")
    print("box-1 joined", file=sys.stderr)
    panel.show(at(1))
    assert "box-1 joined" not in terminal.shows("╯")
    panel.show(at(2, actors=(ActorStatus("box-1", "running"),)))
    terminal.shows("box-1 joined")
    below = terminal.seen.partition("box-1 joined")[2]
    assert "no actor yet" not in below + terminal.read()


@pytest.mark.slow
def test_stopped_terminal_holds_up_no_caller_and_then_shows_the_newest(
    terminal: Terminal, panel: LivePanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Ctrl-S statuses replace one another and lines beyond a bound are counted."""
    monkeypatch.setattr(sys, "stdout", terminal.stream)
    panel.show(STATUS)
    terminal.shows("╯")
    terminal.stop()
    began = time.monotonic()
    panel.show(at(0))
    for number in range(1, 1000):
        panel.show(at(number))
    for number in range(3 * LINES):
        print(f"line {number}")
    assert took_at_most(time.monotonic() - began, 2.0)
    assert terminal.read() == ""
    frames = terminal.seen.count(" of 2,000,000")
    terminal.go_on()
    for text in ("999 of 2,000,000", f"line {3 * LINES - 1}", "lines were left out"):
        eventually(lambda text=text: terminal.has_shown(text), text)
    # The frame that waited, and newer ones: more of those on a busy machine, but not 1,000.
    assert terminal.seen.count(" of 2,000,000") <= frames + 30
    panel.show(at(5000))
    terminal.shows("5,000 of 2,000,000")


@pytest.mark.slow
def test_stopped_terminal_gets_a_second_at_the_end(terminal: Terminal, panel: LivePanel) -> None:
    """The run is over and saved: nothing is worth waiting for longer."""
    panel.show(STATUS)
    terminal.shows("╯")
    terminal.stop()
    panel.show(at(5))
    began = time.monotonic()
    panel.close()
    assert took_at_most(time.monotonic() - began, 3.0)


def test_vanished_terminal_does_not_end_the_run(
    terminal: Terminal, caplog: pytest.LogCaptureFixture
) -> None:
    """The window was closed: the log names it once, and the run goes on."""
    shown = screen("panel", terminal.stream)
    shown.show(STATUS)
    terminal.shows("╯")
    terminal.vanish()
    with caplog.at_level(logging.WARNING):
        shown.show(at(1, seconds=152.0))
        eventually(lambda: "the panel cannot be written, the run goes on" in caplog.text)
        shown.close(at(2, seconds=153.0))
    assert len(caplog.records) == 1
