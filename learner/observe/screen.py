"""The learner's screen: a live panel on a terminal, plain lines elsewhere, JSON for machines."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TextIO

from farflung.common.process.text import printable
from farflung.learner.observe.figures import games
from farflung.learner.observe.formatting import count, duration, figure, rate, waiting
from farflung.learner.observe.sinks import S, StatusSink
from farflung.learner.observe.status import Status, to_document

if TYPE_CHECKING:
    from rich.panel import Panel

Ui = Literal["auto", "panel", "lines", "json"]

PANEL_S = 0.25  # seconds between two frames
LINES_S = 10.0
JSON_S = 2.0
OWN = 4  # metrics of one's own in a line


@dataclass(frozen=True, slots=True)
class Views(Generic[S]):
    """The forms of a status: plain line, JSON, and panel of so many columns and lines."""

    line: Callable[[S], str]
    document: Callable[[S], str]
    draw: "Callable[[S, int, int, str], Panel]"


def screen(ui: Ui, stream: TextIO) -> StatusSink[Status]:
    """Return the screen of a learner."""
    return shown(ui, stream, Views(line, to_document, _draw))


def shown(ui: Ui, stream: TextIO, views: Views[S]) -> StatusSink[S]:
    """Return the screen that was asked for; `auto` is the panel where the terminal can draw it."""
    if ui == "json":
        return StatusSink(
            "status as JSON", lambda status: _write(stream, views.document(status)), JSON_S
        )
    if ui == "panel" or (ui == "auto" and can_draw(stream)):
        # Imported here: plain lines and JSON need no rich, and `learner --help` stays quick.
        from farflung.learner.observe.live_panel import LivePanel

        panel = LivePanel(stream, views.draw)
        return StatusSink("the panel", panel.show, PANEL_S, panel.close)
    return StatusSink(
        "status lines",
        lambda status: _write(stream, views.line(status)),
        LINES_S,
        evaluations=False,
    )


def can_draw(stream: TextIO) -> bool:
    """Return True for a terminal that moves its cursor and shows bars."""
    utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    return stream.isatty() and utf8 and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def line(status: Status) -> str:
    """Return the status as one plain line."""
    target = f" of {count(status.steps_target)}" if status.steps_target else ""
    wanted = "" if status.ratio_wanted is None else f" of {status.ratio_wanted:g}"
    problems = status.lost + sum(status.refused.values())
    parts = [
        duration(status.seconds),
        status.state,
        f"env steps {count(status.steps)}{target}",
        f"return {figure(status.return_mean)}",
        f"evaluation {figure(status.evaluation.mean)}" if status.evaluation else "",
        f"games {games(status.games)}" if status.games.played else "",
        *(f"{name} {figure(own.mean)}" for name, own in list(status.figures.items())[:OWN]),
        f"{rate(status.steps_per_second)} env steps/s",
        f"{rate(status.updates_per_second)} updates/s",
        f"ratio {figure(status.ratio_held)}{wanted}",
        f"version {count(status.version)}",
        f"actors {status.present}",
        f"waiting: {wait}" if (wait := waiting(status.waiting)) else "",
        f"refused or lost {count(problems)}" if problems else "",
        status.verdict.sentence,
    ]
    return printable(", ".join(part for part in parts if part))


def _draw(status: Status, width: int, height: int, hint: str) -> "Panel":
    from farflung.learner.observe.panel import draw  # as late as `LivePanel`

    return draw(status, width, height, hint)


def _write(stream: TextIO, text: str) -> None:
    stream.write(text + "\n")
    stream.flush()
