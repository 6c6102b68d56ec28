"""The learner's screen."""

from typing import Literal, Protocol, TextIO

from learner.status import Status

Ui = Literal["auto", "panel", "lines", "json"]


class Screen(Protocol):
    """Where a learner shows itself. Both may be called as often as one likes: a screen draws at its own pace, and never raises."""

    def show(self, status: Status) -> None:
        """Draw this, if it is time."""

    def close(self, status: Status) -> None:
        """Draw the last figures and leave the terminal as it was."""


def screen(ui: Ui, stream: TextIO) -> Screen:
    """The screen that was asked for; `auto` is the panel on a terminal and plain lines elsewhere."""
    raise NotImplementedError
