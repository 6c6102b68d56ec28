"""Lines that a subcommand writes while it works."""

import logging

import pytest

from farflung.learner.cli.at_work import at_work, on_terminal


def test_first_line_and_those_that_follow_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Of other loggers only warnings are shown, and all is written once the block ends."""
    other = logging.getLogger("farflung.learner.other")
    with at_work("one", "reading") as say:
        other.info("a detail")
        other.warning("a problem")
        say("counting")
    said = [line.split(" - ")[1] for line in capsys.readouterr().err.splitlines()]
    assert said == ["INFO reading", "WARNING a problem", "INFO counting"]


def test_pipe_hears_nothing_of_a_question(capsys: pytest.CaptureFixture[str]) -> None:
    """The log of a health check holds its answers alone."""
    with on_terminal("status", "asking"):
        print("fine")
    assert tuple(capsys.readouterr()) == ("fine\n", "")
