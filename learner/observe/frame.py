"""The frame of a panel: a title, rows of text, and a foot, cut to the columns that there are."""

from collections.abc import Mapping, Sequence

from rich.box import ROUNDED
from rich.cells import cell_len
from rich.console import Group
from rich.panel import Panel
from rich.text import Text

from farflung.common.process.invocation import pasted
from farflung.common.process.text import printable
from farflung.learner.observe.status import ActorState

WIDEST = 120  # beyond that the eye loses the line
LABEL = 12  # columns of the labels of rows

STATES = {
    "run": "running",
    "restoring": "restoring",
    "pause": "paused",
    "away": "stopped",
    "stop": "finished",
}
STYLES = {
    "running": "green",
    "restoring": "yellow",
    "paused": "yellow",
    ActorState.JOINING: "yellow",
    ActorState.LEARNING: "green",
    ActorState.WAITING: "yellow",
    ActorState.EVALUATING: "cyan",
    ActorState.SILENT: "bold red",
    ActorState.LEFT: "dim",
}


def framed(title: Text, rows: Sequence[Text], join: str, hint: str, width: int) -> Panel:
    """Return rows in a frame of so many columns; at its bottom the line to paste, and the hint."""
    join = f"join with: {pasted(join)}" if join else ""
    foot = " · ".join(filter(None, (join, hint)))
    foot = foot if cell_len(foot) <= width - 6 else join  # the line to paste stays whole
    return Panel(
        Group(*(safe(each, width - 4) for each in rows)),
        box=ROUNDED,
        border_style="dim",
        width=width,
        title=safe(title, width - 6),
        title_align="left",
        subtitle=safe(Text(foot), width - 6) if foot else None,
        subtitle_align="left",
    )


def safe(row: Text, width: int) -> Text:
    """Cut a row, and blank what could steer a terminal: names come over the network."""
    row.plain = printable(row.plain)  # letter by letter, so the styles stay where they are
    row.truncate(max(0, width), overflow="ellipsis")
    return row


def labelled(label: str, value: str, style: str = "", *more: str) -> Text:
    """Return a row of one figure, with what explains it."""
    rest = "".join(f"  {part}" for part in more if part)
    return Text.assemble((label.ljust(LABEL), "dim"), (value, style), (rest, "dim"))


def table_row(
    columns: Mapping[str, tuple[int, int]],
    cells: Sequence[str],
    width: int,
    style: str,
    state_style: str,
) -> Text:
    """Return a row of a table: the name in what the columns leave, those that are shown, flush.

    A column has a width, and one of the panel from which it is shown. Only `state` is flush left.
    """
    shown = {name: size for name, (size, least) in columns.items() if width >= least}
    name_width = max(8, width - sum(shown.values()) - 2 * len(shown))
    row = Text(middle(cells[0], name_width).ljust(name_width), style)
    for name, cell in zip(columns, cells[1:], strict=True):
        if name == "state":
            row.append("  " + cell.ljust(shown[name]), state_style)
        elif name in shown:
            row.append("  " + cell.rjust(shown[name]), style)
    return row


def middle(text: str, width: int) -> str:
    """Return the text without its middle if it is too long: names differ at both ends."""
    if len(text) <= width:
        return text
    tail = width // 2
    return f"{text[: width - tail - 1]}…{text[len(text) - tail :]}"
