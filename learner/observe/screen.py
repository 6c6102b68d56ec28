"""The learner's screen: a live panel on a terminal, plain lines elsewhere, JSON for machines. One thread shows; any may log."""

import os
import sys
from typing import Literal, TextIO

from farflung.learner.observe.formatting import count, duration, figure, printable, rate, waiting
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.observe.status import Status, to_document

Ui = Literal["auto", "panel", "lines", "json"]

PANEL_S = 0.25  # seconds between two frames
LINES_S = 10.0
JSON_S = 2.0


def screen(ui: Ui, stream: TextIO) -> StatusSink:
    """The screen that was asked for; `auto` is the panel on a terminal that can draw it, and plain lines elsewhere."""
    if ui == "json":
        return StatusSink(
            "status as JSON", lambda status: _write(stream, to_document(status)), JSON_S
        )
    if ui == "panel" or (ui == "auto" and can_draw(stream)):
        panel = _LivePanel(stream)
        return StatusSink("the panel", panel.draw, PANEL_S, panel.leave)
    return StatusSink(
        "status lines", lambda status: _write(stream, line(status)), LINES_S, evaluations=False
    )


def can_draw(stream: TextIO) -> bool:
    """Whether it is a terminal that moves its cursor and shows bars."""
    utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    return stream.isatty() and utf8 and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def line(status: Status) -> str:
    """The status in one plain line."""
    target = f" of {count(status.steps_target)}" if status.steps_target else ""
    wanted = "" if status.ratio_wanted is None else f" of {status.ratio_wanted:g}"
    problems = status.lost + sum(status.refused.values())
    parts = [
        duration(status.seconds),
        status.state,
        f"steps {count(status.steps)}{target}",
        f"return {figure(status.return_mean)}",
        f"evaluation {figure(status.evaluation.mean)}" if status.evaluation else "",
        f"{rate(status.steps_per_second)} steps/s",
        f"{rate(status.updates_per_second)} updates/s",
        f"ratio {figure(status.ratio_held)}{wanted}",
        f"version {count(status.version)}",
        f"actors {len(status.actors)}",
        f"waiting: {wait}" if (wait := waiting(status.waiting)) else "",
        f"refused or lost {count(problems)}" if problems else "",
    ]
    return printable(", ".join(part for part in parts if part))


def _write(stream: TextIO, text: str) -> None:
    stream.write(text + "\n")
    stream.flush()


def _size(stream: TextIO) -> tuple[int, int]:
    """Columns and lines; 80 by 24 where there is no terminal, or one that does not say (a container's may be 0 by 0)."""
    columns, lines = os.get_terminal_size(stream.fileno()) if stream.isatty() else (0, 0)
    return columns or 80, lines or 24


class _LivePanel:
    """Frames drawn over one another; log lines and prints scroll past above them."""

    def __init__(self, stream: TextIO) -> None:
        # Imported here: plain lines and JSON need no rich, and `learner --help` stays quick.
        from rich.console import Console
        from rich.live import Live

        self._stream = stream
        self._console = Console(file=stream)
        # What is written to our own terminal by others would tear the frame, so it goes through the console; a redirected file stays one.
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            vertical_overflow="crop",
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )
        self._size = _size(stream)

    def draw(self, status: Status) -> None:
        """Replace the frame."""
        from farflung.learner.observe.panel import draw

        size = _size(self._stream)
        self._console.size = size  # rich would ask the terminal behind standard input
        frame = draw(status, size[0], size[1] - 1, "Ctrl-C finishes and saves")
        if not self._live.is_started:
            self._live.start()
            self._console.show_cursor(True)  # a killed learner could not bring it back
        if size != self._size:
            self._size = size
            self._console.clear()  # the terminal has wrapped the old frame: begin on an empty screen
        self._live.update(frame, refresh=True)

    def leave(self) -> None:
        """Keep the last frame, below it the cursor."""
        self._live.stop()
