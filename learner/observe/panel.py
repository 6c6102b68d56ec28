"""The panel: a status as one frame of text that fits a terminal.

Rows are laid out as text. A rich table of the actors takes six times as long to draw, in which
Python runs nothing else: with four frames a second that would cost training 2 %.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap

from rich.panel import Panel
from rich.text import Text

from farflung.common.data.fields import DEFAULT_POLICY
from farflung.common.process.invocation import pasted
from farflung.common.process.text import printable
from farflung.learner.core.pacing import Cause
from farflung.learner.observe.figures import figures, update_split
from farflung.learner.observe.formatting import (
    count,
    duration,
    figure,
    one_line,
    rate,
    sparkline,
    waiting,
)
from farflung.learner.observe.frame import (
    LABEL,
    STATES,
    STYLES,
    WIDEST,
    framed,
    labelled,
    table_row,
)
from farflung.learner.observe.real_time import sentences
from farflung.learner.observe.status import ActorState, ActorStatus, Status

LOW = 12  # rows inside a frame: with fewer the goal has no row of its own
FACT = 24  # columns of a label and its figure

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
    return framed(_title(status), rows, status.join, hint, width)


def _rows(status: Status, width: int, height: int) -> Iterator[Text]:
    """Yield the rows inside the frame. In a low frame figures make room for actors."""
    gap = [Text()] if height >= 17 else []
    timed = [labelled("real time", text) for text in sentences(status.actors)]
    problems = [*timed[:1], *_problems(status), *timed[1:]][: 4 if height >= 22 else 2]
    below = [*gap, *problems] if problems else []
    heads = [*_heads(status, width, height < LOW), *gap]
    waits = [*gap, labelled("waiting", waiting(status.waiting) or "neither side", "yellow")]
    waits += [*_verdict(status, width), *gap]
    actors = 1 + min(2, len(status.actors)) + (len(status.actors) > 2)
    facts = list(_facts(status, width))
    if split := update_split(status):
        facts.append(labelled("an update", split))
    room = height - len(heads) - len(waits) - len(below)
    facts = facts[: max(0, room - actors)]
    yield from (*heads, *facts, *waits)
    yield from actor_rows(status, width, room - len(facts))
    yield from below


def _verdict(status: Status, width: int) -> Iterator[Text]:
    """Yield the verdict in as many rows as it needs: its remedy comes last."""
    for number, words in enumerate(
        wrap(printable(status.verdict.sentence), max(20, width - LABEL))
    ):
        yield labelled("" if number else "verdict", words, "yellow")


def _title(status: Status) -> Text:
    state = STATES.get(status.state, status.state)
    where = f" on {status.device}" if status.algorithm and status.device else ""
    mode = "" if status.mode == "async" else status.mode
    policy = "" if status.policy == DEFAULT_POLICY else f"policy {status.policy}"
    about = (status.environment, f"{status.algorithm}{where}", mode, policy, status.run)
    return Text.assemble(
        ("learner ", "bold cyan"),
        (state, STYLES.get(state, "")),
        (f" {duration(status.seconds)}", "not dim"),
        *((f" · {part}", "not dim") for part in about if part),
    )


def _heads(status: Status, width: int, low: bool) -> Iterator[Text]:
    """Yield progress, return, evaluation and goal: the rows that matter most."""
    yield _progress(status, 30 if width >= 90 else 12)
    returns = _curve("return", status.return_mean, status.return_history, width)
    if status.return_mean is None:
        returns.append("  no episode has ended yet", "dim")
    yield returns
    evaluation = status.evaluation
    mean = evaluation.mean if evaluation else None
    row = _curve("evaluation", mean, status.evaluation_history, width, extent=not low)
    if evaluation is not None:
        row.append(f"  best {figure(evaluation.best)}", "bold")
        row.append("" if low else f"  version {count(evaluation.version)}", "dim")
    goal = labelled("goal", _time_left(status), "bold", status.until)
    if status.until and low:
        row.append("  goal ", "dim").append(_time_left(status))
    yield from (row, goal) if status.until and not low else (row,)


def _curve(
    label: str,
    value: float | None,
    history: Iterable[float | None],
    width: int,
    extent: bool = True,
) -> Text:
    """Return a row of a figure with its course, and the extent of that."""
    row = labelled(label, figure(value).rjust(7), "bold")
    course = [math.nan if point is None else point for point in history]
    if len(course) > 1:
        row.append(f"  {sparkline(course, max(8, min(40, width - 50)))}", "cyan")
        known = [point for point in course if math.isfinite(point)] if extent else []
        row.append(f"  {figure(min(known))} to {figure(max(known))}" if known else "", "dim")
    return row


def _time_left(status: Status) -> str:
    """Return the time to the goal, by present rates and the trend of evaluations."""
    if status.state == "stop":
        return "reached"
    if status.goal_seconds is None:
        return "not in sight yet"
    return f"about {duration(max(1.0, status.goal_seconds))}"


def _progress(status: Status, length: int) -> Text:
    if status.progress is None or status.steps_target is None:
        return labelled("env steps", count(status.steps), "bold")
    done = f"{count(status.steps)} of {count(status.steps_target)}"
    most = "at most " if status.until else ""  # another goal may end the run before
    left = f"{most}{duration(status.seconds_left)} left" if status.seconds_left else ""
    full = round(status.progress * length)
    row = labelled("env steps", done, "bold", f"{int(status.progress * 100)} %")
    row.append("  ").append("━" * full, "cyan").append("─" * (length - full), "dim")
    return row.append(f"  {left}", "dim")


def _facts(status: Status, width: int) -> Iterator[Text]:
    """Yield rows of figures in one to four columns, the most important ones first."""
    columns = max(1, min(4, (width + 2) // (FACT + 2)))
    space = " " * min(8, (width - columns * FACT) // max(1, columns - 1))
    facts = list(figures(status))
    for start in range(0, len(facts), columns):
        row = Text()
        for label, value in facts[start : start + columns]:
            label = label[: max(1, FACT - len(value) - 1)]
            row.append(space if row else "").append(label, "dim")
            row.append(value.rjust(FACT - len(label)))
        yield row


def actor_rows(status: Status, width: int, room: int) -> Iterator[Text]:
    """Yield a table of the actors.

    If they do not fit, those that brought parcels come first, of these the silent ones; then a sum.
    """
    actors = status.actors
    if not actors:
        start = f"; start one with  {pasted(status.join)}" if status.join else ""
        if status.waiting.cause == Cause.ACTORS and status.waiting.number:
            start = f": {count(status.waiting.number)} start on this machine"
        yield Text.assemble("no actor yet", (start, "dim"))
        return
    head = f"{status.present} actor{'' if status.present == 1 else 's'}"
    yield table_row(COLUMNS, (head, *COLUMNS), width, "dim", "dim")
    shown = actors
    if len(actors) > room - 1:
        ordered = sorted(actors, key=lambda it: (not it.proven, URGENCY.get(it.state, 2)))
        shown = tuple(ordered[: max(0, room - 2)])
    for actor in shown:
        style = "dim" if actor.state == ActorState.LEFT else ""
        yield table_row(COLUMNS, _cells(actor), width, style, STYLES.get(actor.state, ""))
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


def _problems(status: Status) -> list[Text]:
    """Return sums of what was lost, skipped and refused; then the problems, newest first."""
    found = []
    if status.lost:
        given_up = f"{count(status.lost)} parcels, by the word of their actors; the log names them"
        found.append(labelled("given up", given_up, "yellow"))
    if lost := {actor.name: actor.lost_steps for actor in status.actors if actor.lost_steps}:
        found.append(
            labelled("lost steps", f"taken and not recorded: {_by_reason(lost)}", "yellow")
        )
    if status.skipped:
        skipped = f"{count(status.skipped)} of {count(status.updates)} updates"
        why = ": loss or gradients were not finite"
        found.append(labelled("skipped", skipped + why, "bold red"))
    if status.refused:
        found.append(labelled("refused", _by_reason(status.refused), "yellow"))
    if status.gradients.refused:
        found.append(
            labelled("gradients", f"refused: {_by_reason(status.gradients.refused)}", "yellow")
        )
    return found + [labelled("problem", one_line(text)) for text in reversed(status.problems)]


def _by_reason(refused: Mapping[str, int]) -> str:
    """Return counts by reason or by actor, the largest first."""
    counts = sorted(refused.items(), key=lambda item: -item[1])
    return ", ".join(f"{reason} {count(number)}" for reason, number in counts)
