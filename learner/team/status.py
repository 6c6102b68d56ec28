"""The status of a team, out of the statuses of its learners."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from farflung.common.process.text import printable
from farflung.common.protocol.messages import State
from farflung.learner.observe.formatting import UNKNOWN, count, duration, figure, rate
from farflung.learner.observe.status import EvaluationStatus, Status, as_json


class Stage(StrEnum):
    """The state of a learner's process, as its team sees it."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    FINISHED = "finished"
    GIVEN_UP = "given up"


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """One policy of a team: its agents, its learner's process, and the newest status of that."""

    agents: tuple[str, ...]
    stage: Stage = Stage.STARTING
    learner: Status | None = None

    @property
    def total(self) -> float | None:
        """The mean return of all its agents together."""
        mean = None if self.learner is None else self.learner.return_mean
        return None if mean is None else mean * len(self.agents)


@dataclass(frozen=True, slots=True)
class TeamStatus:
    """All that a team shows."""

    environment: str
    algorithm: str
    folder: str
    join: str = ""  # the line to paste on another machine
    state: str = "run"  # of common.protocol.messages.State
    seconds: float = 0.0
    policies: Mapping[str, PolicyStatus] = field(default_factory=dict)
    problems: tuple[str, ...] = ()  # of its processes, newest last

    @property
    def learners(self) -> dict[str, Status]:
        """The statuses of the learners that have sent one."""
        return {
            policy: each.learner
            for policy, each in self.policies.items()
            if each.learner is not None
        }

    @property
    def total(self) -> float | None:
        """The mean return of an episode, of all agents together; None until all have one."""
        totals = [each.total for each in self.policies.values()]
        known = [total for total in totals if total is not None]
        return sum(known) if known and len(known) == len(totals) else None

    @property
    def evaluation(self) -> tuple[EvaluationStatus | None, ...]:
        """The newest evaluation of each policy."""
        return tuple(status.evaluation for status in self.learners.values())


def line(team: TeamStatus) -> str:
    """Return the status as one plain line."""
    parts = [
        duration(team.seconds),
        f"return of all {figure(team.total)}" if team.total is not None else "",
        *(_words(policy, each) for policy, each in team.policies.items()),
    ]
    return printable(", ".join(part for part in parts if part))


def document(team: TeamStatus) -> str:
    """Return the status as one line of JSON."""
    return as_json(team)


def steps(status: Status) -> str:
    """Return the environment steps of a learner, and those that are wanted."""
    target = f" of {count(status.steps_target)}" if status.steps_target else ""
    return f"{count(status.steps)}{target}"


def state(each: PolicyStatus) -> str:
    """Return the state of a policy: of its process, or a pause of its training; and its weight."""
    status = each.learner
    if status is None or each.stage != Stage.RUNNING:
        return each.stage
    weight = f" x{status.weight:g}" if status.weight != 1 else ""
    return f"{'paused' if status.state == State.PAUSE else each.stage}{weight}"


def evaluated(status: Status) -> str:
    """Return the mean of a learner's newest evaluation."""
    return figure(status.evaluation.mean) if status.evaluation else UNKNOWN


def _words(policy: str, each: PolicyStatus) -> str:
    status = each.learner
    if status is None:
        return f"{policy}: {each.stage}"
    shown = state(each)
    stage = "" if shown == Stage.RUNNING else f"{shown} "
    evaluation = f" evaluation {evaluated(status)}" if status.evaluation else ""
    return (
        f"{policy}: {stage}{steps(status)} steps, return {figure(status.return_mean)}{evaluation}, "
        f"{rate(status.updates_per_second)} updates/s"
    )
