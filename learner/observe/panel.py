"""The panel: a status as one frame of text that fits a terminal.

Rows are laid out as text. A rich table of the actors takes six times as long to draw, in which
Python runs nothing else: with four frames a second that would cost training 2 %.
"""

import math
from collections import Counter
from collections.abc import Iterator

from rich.box import ROUNDED
from rich.cells import cell_len
from rich.console import Group
from rich.panel import Panel
from rich.text import Text

from farflung.common.process.invocation import pasted
from farflung.common.process.text import printable
from farflung.learner.observe.formatting import (
    UNKNOWN,
    compact,
    count,
    duration,
    figure,
    one_line,
    rate,
    sparkline,
    waiting,
)
from farflung.learner.observe.status import ActorState, ActorStatus, Status

WIDEST = 120  # beyond that the eye loses the line
LABEL = 12  # columns of the labels of rows
FACT = 24  # columns of a label and its figure
METRICS = 8  # figures of algorithm and exploration at most, and as many of one's own

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
    ActorState.WAITING: "yellow",
    ActorState.EVALUATING: "cyan",
    ActorState.SILENT: "bold red",
    ActorState.LEFT: "dim",
}
URGENCY: dict[str, int] = {ActorState.SILENT: 0, ActorState.EVALUATING: 1, ActorState.LEFT: 3}
# Columns of the table of actors: how wide each is, and from which width of the panel it is shown.
COLUMNS = {
    "state": (10, 0),
    "seats": (5, 90),
    "steps/s": (8, 0),
    "episodes": (9, 70),
    "version": (8, 50),
    "parcels": (9, 90),
    "waiting": (7, 60),
    "seen": (6, 45),
}


def draw(status: Status, width: int, height: int, hint: str = "") -> Panel:
    """Return the status in at most so many columns and lines; the hint stands at the bottom."""
    width = min(width, WIDEST)
    rows = list(_rows(status, width - 4, height - 2))[: max(0, height - 2)]
    join = f"join with: {pasted(status.join)}" if status.join else ""
    foot = " · ".join(filter(None, (join, hint)))
    foot = foot if cell_len(foot) <= width - 6 else join  # the line to paste stays whole
    return Panel(
        Group(*(_safe(row, width - 4) for row in rows)),
        box=ROUNDED,
        border_style="dim",
        width=width,
        title=_safe(_title(status), width - 6),
        title_align="left",
        subtitle=_safe(Text(foot), width - 6) if foot else None,
        subtitle_align="left",
    )


def _safe(row: Text, width: int) -> Text:
    """Cut a row, and blank what could steer a terminal: names come over the network."""
    row.plain = printable(row.plain)  # letter by letter, so the styles stay where they are
    row.truncate(max(0, width), overflow="ellipsis")
    return row


def _rows(status: Status, width: int, height: int) -> Iterator[Text]:
    """Yield the rows inside the frame. In a low frame figures make room for actors."""
    gap = [Text()] if height >= 17 else []
    problems = _problems(status)[: 4 if height >= 22 else 2]
    below = [*gap, *problems] if problems else []
    heads = [*_heads(status, width), *gap]
    waits = [*gap, _row("waiting", waiting(status.waiting) or "neither side", "yellow"), *gap]
    actors = 1 + min(2, len(status.actors)) + (len(status.actors) > 2)
    facts = list(_facts(status, width))
    room = height - len(heads) - len(waits) - len(below)
    facts = facts[: max(0, room - actors)]
    yield from (*heads, *facts, *waits)
    yield from _actors(status, width, room - len(facts))
    yield from below


def _title(status: Status) -> Text:
    state = STATES.get(status.state, status.state)
    where = f" on {status.device}" if status.algorithm and status.device else ""
    mode = "" if status.mode == "async" else status.mode
    policy = "" if status.policy == "default" else f"policy {status.policy}"
    about = (status.environment, f"{status.algorithm}{where}", mode, policy, status.run)
    return Text.assemble(
        ("learner ", "bold cyan"),
        (state, STYLES.get(state, "")),
        (f" {duration(status.seconds)}", "not dim"),
        *((f" · {part}", "not dim") for part in about if part),
    )


def _row(label: str, value: str, style: str = "", *more: str) -> Text:
    """Return a row of one figure, with what explains it."""
    rest = "".join(f"  {part}" for part in more if part)
    return Text.assemble((label.ljust(LABEL), "dim"), (value, style), (rest, "dim"))


def _heads(status: Status, width: int) -> Iterator[Text]:
    """Yield progress, return and evaluation: the rows that matter most."""
    yield _progress(status, 30 if width >= 90 else 16)
    row = _row("return", figure(status.return_mean).rjust(7), "bold")
    history = [math.nan if value is None else value for value in status.return_history]
    if len(history) > 1:
        row.append(f"  {sparkline(history, max(8, min(40, width - 40)))}", "cyan")
        row.append(f"  {figure(min(history))} to {figure(max(history))}", "dim")
    elif status.return_mean is None:
        row.append("  no episode has ended yet", "dim")
    yield row
    evaluation = status.evaluation
    value = figure(evaluation.mean if evaluation else None).rjust(7)
    until = f"until {status.until}" if status.until else ""
    best = f"best {figure(evaluation.best)}" if evaluation else ""
    version = f"version {count(evaluation.version)}" if evaluation else ""
    yield _row("evaluation", value, "bold", best, version, until)


def _progress(status: Status, length: int) -> Text:
    if status.progress is None or status.steps_target is None:
        return _row("steps", count(status.steps), "bold")
    done = f"{count(status.steps)} of {count(status.steps_target)}"
    left = f"{duration(status.seconds_left)} left" if status.seconds_left else ""
    full = round(status.progress * length)
    row = _row("steps", done, "bold", f"{int(status.progress * 100)} %")
    row.append("  ").append("━" * full, "cyan").append("─" * (length - full), "dim")
    return row.append(f"  {left}", "dim")


def _facts(status: Status, width: int) -> Iterator[Text]:
    """Yield rows of figures in one to three columns, the most important ones first."""
    columns = max(1, min(3, (width + 2) // (FACT + 2)))
    space = " " * min(8, (width - columns * FACT) // max(1, columns - 1))
    facts = list(_figures(status))
    for start in range(0, len(facts), columns):
        row = Text()
        for label, value in facts[start : start + columns]:
            label = label[: max(1, FACT - len(value) - 1)]
            row.append(space if row else "").append(label, "dim")
            row.append(value.rjust(FACT - len(label)))
        yield row


def _figures(status: Status) -> Iterator[tuple[str, str]]:
    """Yield how fast it is, how much came, and the figures of algorithm and exploration."""
    wanted = "" if status.ratio_wanted is None else f" of {status.ratio_wanted:g}"
    lag = UNKNOWN if status.lag_p50 is None else f"{status.lag_p50:.0f}"
    lag += "" if status.lag_p95 is None else f", p95 {status.lag_p95:.0f}"
    full = status.replay_size * 100 // status.replay_capacity if status.replay_capacity else 0
    yield "steps/s", rate(status.steps_per_second)
    yield "updates", count(status.updates)
    yield "episodes", count(status.episodes)
    yield "updates/s", rate(status.updates_per_second)
    yield "version", count(status.version)
    yield "episode length", figure(status.length_mean)
    yield "replay ratio", figure(status.ratio_held) + wanted
    yield "replay", f"{full} % of {compact(status.replay_capacity)}"
    yield "parcels", count(status.received)
    yield "policy lag", lag
    for name, own in list(status.figures.items())[:METRICS]:
        label = name.removeprefix("rollout/").removeprefix("train/")
        yield label.replace("_", " ").replace("/", " "), figure(own.mean)
    for name, value in list(status.metrics.items())[:METRICS]:
        yield name.replace("_", " "), figure(value)


def _actors(status: Status, width: int, room: int) -> Iterator[Text]:
    """Yield a table of the actors.

    If they do not fit, those that brought parcels come first, of these the silent ones; then a sum.
    """
    actors = status.actors
    if not actors:
        start = f"; start one with  {pasted(status.join)}" if status.join else ""
        yield Text.assemble("no actor yet", (start, "dim"))
        return
    head = f"{status.present} actor{'' if status.present == 1 else 's'}"
    yield _actor_row((head, *COLUMNS), width, "dim", "dim")
    shown = actors
    if len(actors) > room - 1:
        ordered = sorted(actors, key=lambda it: (not it.proven, URGENCY.get(it.state, 2)))
        shown = tuple(ordered[: max(0, room - 2)])
    for actor in shown:
        style = "dim" if actor.state == ActorState.LEFT else ""
        yield _actor_row(_cells(actor), width, style, STYLES.get(actor.state, ""))
    if len(shown) < len(actors):
        states = Counter(actor.state for actor in ordered[len(shown) :])
        states["not listed"] += status.more_actors
        rest = ", ".join(f"{number} {state}" for state, number in states.most_common() if number)
        yield Text(f"and {states.total()} more: {rest}", "dim")
    elif status.more_actors:
        yield Text(f"and {status.more_actors} more", "dim")


def _cells(actor: ActorStatus) -> tuple[str, ...]:
    seen = f"{actor.seen_ago:.1f} s" if actor.seen_ago < 10 else duration(actor.seen_ago)
    return (
        actor.name,
        actor.state,
        count(actor.seats),
        rate(actor.steps_per_second),
        count(actor.episodes),
        count(actor.version),
        count(actor.acknowledged),
        count(actor.waiting),
        " ".join(seen.split()[:2]),
    )


def _actor_row(cells: tuple[str, ...], width: int, style: str, state_style: str) -> Text:
    columns = {name: size for name, (size, least) in COLUMNS.items() if width >= least}
    name_width = max(8, width - sum(columns.values()) - 2 * len(columns))
    row = Text(_middle(cells[0], name_width).ljust(name_width), style)
    for name, cell in zip(COLUMNS, cells[1:], strict=True):
        if name == "state":
            row.append("  " + cell.ljust(columns[name]), state_style)
        elif name in columns:
            row.append("  " + cell.rjust(columns[name]), style)
    return row


def _middle(text: str, width: int) -> str:
    """Return the text without its middle if it is too long: names differ at both ends."""
    if len(text) <= width:
        return text
    tail = width // 2
    return f"{text[: width - tail - 1]}…{text[len(text) - tail :]}"


def _problems(status: Status) -> list[Text]:
    """Return sums of what was lost, skipped and refused; then the problems, newest first."""
    found = []
    if status.lost:
        given_up = f"{count(status.lost)} parcels, by the word of their actors; the log names them"
        found.append(_row("given up", given_up, "yellow"))
    if status.skipped:
        skipped = f"{count(status.skipped)} of {count(status.updates)} updates"
        why = ": loss or gradients were not finite"
        found.append(_row("skipped", skipped + why, "bold red"))
    if status.refused:
        counts = sorted(status.refused.items(), key=lambda item: -item[1])
        reasons = ", ".join(f"{reason} {count(number)}" for reason, number in counts)
        found.append(_row("refused", reasons, "yellow"))
    return found + [_row("problem", one_line(text)) for text in reversed(status.problems)]
