"""The panel of a team: a row for each policy, the actors that all share, and problems."""

from collections.abc import Iterator
from dataclasses import replace

from rich.panel import Panel
from rich.text import Text

from farflung.learner.observe.formatting import (
    UNKNOWN,
    count,
    duration,
    figure,
    one_line,
    rate,
    sparkline,
    waiting,
)
from farflung.learner.observe.frame import (
    STATES,
    STYLES,
    WIDEST,
    framed,
    labelled,
    table_row,
)
from farflung.learner.observe.panel import actor_rows
from farflung.learner.team.status import PolicyStatus, Stage, TeamStatus, evaluated, state, steps

# Columns of the table of policies: how wide each is, and from which width of the panel it is shown.
COLUMNS = {
    "state": (12, 0),
    "agents": (6, 100),
    "env steps": (18, 60),
    "return": (8, 0),
    "evaluation": (10, 70),
    "updates/s": (9, 80),
    "version": (8, 90),
}
STAGES = {
    Stage.STARTING: "yellow",
    Stage.RUNNING: "green",
    Stage.RESTARTING: "bold red",
    Stage.GIVEN_UP: "bold red",
    Stage.FINISHED: "",
}
PROBLEMS = 4  # rows of them
LEAST_ACTORS = 2  # rows of their table


def draw(team: TeamStatus, width: int, height: int, hint: str = "") -> Panel:
    """Return the status in at most so many columns and lines; the hint stands at the bottom."""
    width = min(width, WIDEST)
    rows = list(_rows(team, width - 4, height - 2))[: max(0, height - 2)]
    return framed(_title(team), rows, team.join, hint, width)


def _title(team: TeamStatus) -> Text:
    state = STATES.get(team.state, team.state)
    policies = f"{len(team.policies)} {'policy' if len(team.policies) == 1 else 'policies'}"
    return Text.assemble(
        ("team ", "bold cyan"),
        (state, STYLES.get(state, "")),
        (f" {duration(team.seconds)}", "not dim"),
        *(
            (f" · {part}", "not dim")
            for part in (team.environment, team.algorithm, policies, team.folder)
            if part
        ),
    )


def _rows(team: TeamStatus, width: int, height: int) -> Iterator[Text]:
    """Yield the rows inside the frame: policies come first, actors take what room is left."""
    gap = [Text()] if height >= 17 else []
    problems = [labelled("problem", one_line(text), "yellow") for text in _problems(team)]
    below = [*gap, *problems[:PROBLEMS]] if problems else []
    waits = [*gap, *_waits(team)]
    above = [
        labelled("return", figure(team.total).rjust(7), "bold", "of all agents together"),
        *gap,
        table_row(COLUMNS, ("policies", *COLUMNS), width, "dim", "dim"),
    ]
    room = height - len(above) - len(waits) - len(below) - len(gap)
    policies = list(_policies(team, width, room - LEAST_ACTORS))
    actors = list(_actors(team, width, room - len(policies)))
    yield from (*above, *policies, *waits, *(gap if actors else []), *actors, *below)


def _actors(team: TeamStatus, width: int, room: int) -> Iterator[Text]:
    """Yield a table of the actors, as the learner sees them that knows most of them."""
    learners = team.learners.values()
    fullest = max(learners, key=lambda status: len(status.actors), default=None)
    if fullest is not None:
        yield from actor_rows(replace(fullest, join=team.join), width, max(LEAST_ACTORS, room))


def _policies(team: TeamStatus, width: int, room: int) -> Iterator[Text]:
    """Yield a row for each policy; if they do not fit, a last one counts the others."""
    shown = list(team.policies.items())
    if len(shown) > max(1, room):
        shown = shown[: max(0, room - 1)]
    for policy, each in shown:
        style = "dim" if each.stage == Stage.FINISHED else ""
        yield table_row(COLUMNS, _cells(policy, each), width, style, STAGES[each.stage])
    if more := len(team.policies) - len(shown):
        yield Text(f"and {more} more", "dim")


def _cells(policy: str, each: PolicyStatus) -> tuple[str, ...]:
    status = each.learner
    if status is None:
        return policy, each.stage, count(len(each.agents)), *[UNKNOWN] * (len(COLUMNS) - 2)
    course = [value for value in status.return_history if value is not None]
    return (
        f"{policy}  {sparkline(course, 12)}" if len(course) > 1 else policy,
        state(each),
        count(len(each.agents)),
        steps(status),
        figure(status.return_mean),
        evaluated(status),
        rate(status.updates_per_second),
        count(status.version),
    )


def _waits(team: TeamStatus) -> list[Text]:
    """Return the sides that wait, the policies with the same sentence in one row."""
    found: dict[str, list[str]] = {}
    for policy, status in team.learners.items():
        sentence = waiting(status.waiting)
        if sentence and team.policies[policy].stage == Stage.RUNNING:
            found.setdefault(sentence, []).append(policy)
    return [
        labelled("waiting", sentence, "yellow", ", ".join(names))
        for sentence, names in list(found.items())[:2]
    ]


def _problems(team: TeamStatus) -> list[str]:
    """Return the problems of processes, newest first, then the newest one of each learner."""
    own = [
        f"{policy}: {status.problems[-1]}"
        for policy, status in team.learners.items()
        if status.problems
    ]
    return [*reversed(team.problems), *own]
