"""The panel: a status as one frame of text that fits a terminal. Laid out by hand, since tables cost four times as much to draw."""

import math
from collections import Counter
from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from farflung.learner.observe.formatting import (
    UNKNOWN,
    compact,
    count,
    duration,
    figure,
    one_line,
    printable,
    rate,
    sparkline,
    waiting,
)
from farflung.learner.observe.status import ActorState, ActorStatus, Status

WIDEST = 120  # beyond that the eye loses the line
LABEL = 12  # columns of the labels of the first rows
TIME_LEFT = 19  # so that the bar keeps its length while the time shrinks
FACT = 24  # columns of a label and its figure below them

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
    "finishing": "yellow",
    ActorState.JOINING: "yellow",
    ActorState.WAITING: "yellow",
    ActorState.EVALUATING: "cyan",
    ActorState.SILENT: "bold red",
    ActorState.LEFT: "dim",
}


def draw(status: Status, width: int, height: int, hint: str = "") -> Text:
    """The status in at most so many columns and lines; the hint stands at the lower right."""
    width = min(width, WIDEST)
    inner = width - 4
    rows = list(_rows(status, inner, height - 2))[: max(0, height - 2)]
    frame = Text(no_wrap=True, overflow="crop", end="")
    frame.append_text(_edge("╭", _title(status), _clock(status), "╮", width))
    for row in rows:
        row.truncate(inner, overflow="ellipsis", pad=True)
        frame.append("\n│ ", "dim").append_text(row).append(" │", "dim")
    hint = (
        hint if cell_len(status.join) + cell_len(hint) + 10 <= width else ""
    )  # what is to be pasted stays whole
    frame.append("\n").append_text(
        _edge("╰", Text(status.join, "bold"), Text(hint, "dim"), "╯", width)
    )
    lines = (printable(line) for line in frame.plain.split("\n"))
    frame.plain = "\n".join(lines)  # of the same length, so the styles stay where they are
    return frame


def _rows(status: Status, width: int, height: int) -> Iterator[Text]:
    """The rows between the edges; actors get what the rest leaves of the height."""
    gap = [Text()] if height >= 17 else []
    above = [*_heads(status, width), *gap, *_facts(status, width), *gap, _waits(status), *gap]
    problems = _problems(status)[: 4 if height >= 24 else 2]
    below = [*gap, *problems] if problems else []
    yield from above
    yield from _actors(status.actors, status, width, height - len(above) - len(below))
    yield from below


def _title(status: Status) -> Text:
    made = (
        f"{status.algorithm} on {status.device}"
        if status.algorithm and status.device
        else status.algorithm
    )
    mode = "" if status.mode == "async" else status.mode
    policy = "" if status.policy == "default" else f"policy {status.policy}"
    rest = " · ".join(part for part in (status.environment, made, mode, policy, status.run) if part)
    return Text.assemble(("learner", "bold cyan"), "  ", rest)


def _clock(status: Status) -> Text:
    word = STATES.get(status.state, status.state)
    return Text.assemble((word, STYLES.get(word, "")), (f" · {duration(status.seconds)}", "dim"))


def _edge(left: str, text: Text, right_text: Text, right: str, width: int) -> Text:
    """A border line with something written into it at both ends; the right one only where it takes less than half."""
    right_text = right_text if 2 * right_text.cell_len <= width else Text()
    room = width - 8 - (right_text.cell_len + 2 if right_text else 0)
    text.truncate(max(0, room), overflow="ellipsis")
    edge = Text.assemble((f"{left}─", "dim"))
    if text:
        edge.append(" ").append_text(text).append(" ")
    tail = Text.assemble(" ", right_text, " ", ("─", "dim")) if right_text else Text("─", "dim")
    edge.append("─" * (width - 1 - edge.cell_len - tail.cell_len), "dim")
    return edge.append_text(tail).append(right, "dim")


def _heads(status: Status, width: int) -> Iterator[Text]:
    """Progress, return and evaluation: what one looks at first."""
    yield _progress(status, width)
    row = _head("return", figure(status.return_mean))
    history = [math.nan if value is None else value for value in status.return_history]
    if len(history) > 1:
        row.append("  ").append(sparkline(history, min(40, width - 45)), "cyan")
        row.append(f"  {figure(min(history))} to {figure(max(history))}", "dim")
    elif status.return_mean is None:
        row.append("  no episode has ended yet", "dim")
    yield row
    evaluation = status.evaluation
    row = _head("evaluation", figure(evaluation.mean if evaluation else None))
    if evaluation:
        row.append(f"  best {figure(evaluation.best)}")
        row.append(f"  version {count(evaluation.version)}", "dim")
    yield _ends(row, Text.assemble(("until ", "dim"), status.until), width) if status.until else row


def _head(label: str, value: str) -> Text:
    return Text.assemble((label.ljust(LABEL), "dim"), (value.rjust(7), "bold"))


def _progress(status: Status, width: int) -> Text:
    if status.progress is None or status.steps_target is None:
        return Text.assemble(("steps".ljust(LABEL), "dim"), (count(status.steps), "bold"))
    left = f"{duration(status.seconds_left)} left" if status.seconds_left else ""
    percent = f"  {int(status.progress * 100):3d} %  "
    counted = f"{count(status.steps)} of {count(status.steps_target)}"
    length = max(10, width - LABEL - len(percent) - len(counted) - TIME_LEFT)
    full = round(status.progress * length)
    bar = ("━" * full, "cyan"), ("─" * (length - full), "dim")
    return Text.assemble(
        ("steps".ljust(LABEL), "dim"),
        *bar,
        percent,
        (counted, "bold"),
        (left.rjust(TIME_LEFT), "dim"),
    )


def _ends(left: Text, right: Text, width: int) -> Text:
    """One at the left, the other at the right."""
    left.truncate(max(0, width - right.cell_len - 2), overflow="ellipsis")
    return left.append(" " * (width - left.cell_len - right.cell_len)).append_text(right)


def _facts(status: Status, width: int) -> Iterator[Text]:
    """Three columns of figures: how fast, how well, how much."""
    columns = 3 if width >= 3 * FACT + 4 else 2 if width >= 2 * FACT + 2 else 1
    space = " " * min(8, (width - columns * FACT) // max(1, columns - 1))
    facts = _speeds(status), _learning(status), _data(status)
    for line in zip(*facts[:columns], strict=True):
        row = Text()
        for column, (label, value) in enumerate(line):
            row.append(space if column else "").append(label, "dim").append(
                value.rjust(FACT - len(label))
            )
        yield row


Facts = tuple[tuple[str, str], ...]


def _speeds(status: Status) -> Facts:
    wanted = "" if status.ratio_wanted is None else f" of {status.ratio_wanted:g}"
    lag = (
        UNKNOWN
        if status.lag_p50 is None
        else f"{status.lag_p50:.0f}, p95 {status.lag_p95 or 0:.0f}"
    )
    return (
        ("steps/s", rate(status.steps_per_second)),
        ("updates/s", rate(status.updates_per_second)),
        ("replay ratio", figure(status.ratio_held) + wanted),
        ("policy lag", lag),
    )


def _learning(status: Status) -> Facts:
    return (
        ("updates", count(status.updates)),
        ("version", count(status.version)),
        *(
            (name, figure(value))
            for name, value in [*status.metrics.items(), ("", None), ("", None)][:2]
        ),
    )


def _data(status: Status) -> Facts:
    full = status.replay_size * 100 // status.replay_capacity if status.replay_capacity else 0
    return (
        ("episodes", count(status.episodes)),
        ("episode length", figure(status.length_mean)),
        ("replay", f"{full} % of {compact(status.replay_capacity)}"),
        ("parcels", count(status.received)),
    )


def _waits(status: Status) -> Text:
    """Always one row, so that what stands below does not jump."""
    return Text.assemble(
        ("waiting".ljust(LABEL), "dim"),
        (sentence, "yellow") if (sentence := waiting(status.waiting)) else ("neither side", "dim"),
    )


def _actors(
    actors: tuple[ActorStatus, ...], status: Status, width: int, room: int
) -> Iterator[Text]:
    """A table of the actors; where they do not fit, the silent ones first and the rest in one line."""
    if not actors:
        yield Text.assemble(
            "no actor yet", (f"; start one with  {status.join}" if status.join else "", "dim")
        )
        return
    yield _actor_line(
        (f"{len(actors)} actors" if len(actors) > 1 else "1 actor", *COLUMNS), "dim", "dim", width
    )
    shown = actors
    if len(actors) > room - 1:
        ordered = sorted(actors, key=lambda actor: URGENCY.get(actor.state, 2))
        shown = tuple(ordered[: max(0, room - 2)])
    for actor in shown:
        left = actor.state == ActorState.LEFT
        yield _actor_line(_cells(actor), "dim" if left else "", STYLES.get(actor.state, ""), width)
    if len(shown) < len(actors):
        words = Counter(actor.state for actor in ordered[len(shown) :])
        yield Text(
            f"and {len(actors) - len(shown)} more: "
            + ", ".join(f"{n} {word}" for word, n in words.most_common()),
            "dim",
        )


URGENCY: dict[str, int] = {ActorState.SILENT: 0, ActorState.EVALUATING: 1, ActorState.LEFT: 3}
# How wide each is, and from which width of the panel on it is shown.
COLUMNS = {
    "state": (10, 0),
    "seats": (5, 90),
    "steps/s": (8, 0),
    "episodes": (9, 70),
    "version": (8, 0),
    "parcels": (9, 90),
    "waiting": (7, 60),
    "seen": (6, 0),
}


def _cells(actor: ActorStatus) -> tuple[str, ...]:
    return (
        actor.name,
        actor.state,
        count(actor.seats),
        rate(actor.steps_per_second),
        count(actor.episodes),
        count(actor.version),
        count(actor.acknowledged),
        count(actor.waiting),
        f"{actor.seen_ago:.1f} s"
        if actor.seen_ago < 10
        else " ".join(duration(actor.seen_ago).split()[:2]),
    )


def _actor_line(cells: tuple[str, ...], style: str, state_style: str, width: int) -> Text:
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
    """The text with its middle left out where it is too long: names differ at both ends."""
    if len(text) <= width:
        return text
    tail = width // 2
    return f"{text[: width - tail - 1]}…{text[len(text) - tail :]}"


def _problems(status: Status) -> list[Text]:
    """What went wrong, the newest first; what is refused and lost stands above, since it adds up."""
    found = []
    if status.lost:
        found.append(Text(f"{count(status.lost)} parcels lost: please report this", "bold red"))
    if status.skipped:
        what = f"{count(status.skipped)} of {count(status.updates)} updates: loss or gradients were not finite"
        found.append(Text.assemble(("skipped".ljust(LABEL), "dim"), (what, "bold red")))
    if status.refused:
        reasons = ", ".join(
            f"{reason} {count(number)}"
            for reason, number in sorted(status.refused.items(), key=lambda item: -item[1])
        )
        found.append(Text.assemble(("refused".ljust(LABEL), "dim"), (reasons, "yellow")))
    found += [
        Text.assemble(("problem".ljust(LABEL), "dim"), one_line(text))
        for text in reversed(status.problems)
    ]
    return found
