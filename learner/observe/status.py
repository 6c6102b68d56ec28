"""The status of a learner: one frozen document for screens, metrics and subscribers of the feed."""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from farflung.common.data.fields import DEFAULT_POLICY
from farflung.common.process.errors import Refused
from farflung.common.process.text import printable
from farflung.learner.core.pacing import Cause
from farflung.learner.observe.verdict import Verdict

LARGEST = (1 << 63) - 1  # whole number in a document: readers in other languages hold no larger

Count = Annotated[int, msgspec.Meta(ge=0)]
Reported = int  # by an actor: older learners pass on any number


class ActorState(StrEnum):
    """The activity of an actor."""

    JOINING = "joining"  # it has its place and has not sent anything yet
    RUNNING = "running"
    LEARNING = "learning"  # a worker: it plays and computes gradients
    WAITING = "waiting"  # it has no credit: pacing or memory holds it back
    EVALUATING = "evaluating"
    SILENT = "silent"  # it sent nothing for longer than its steps explain
    LEFT = "left"  # it sent a goodbye


ABSENT = (ActorState.SILENT, ActorState.LEFT)


@dataclass(frozen=True, slots=True)
class RealTimeStatus:
    """The clock of an actor at a fixed rate, by its own word; counts are since it began."""

    rate_hz: float
    steps: Reported = 0
    missed: Reported = 0  # steps that ran over their period
    skipped: Reported = 0  # periods without a step
    late_p50_s: float = 0.0  # of steps, from when they were due until they began
    late_p99_s: float = 0.0
    late_worst_s: float = 0.0
    weights_age_s: float = 0.0  # of the weights in use, since they came
    dropped: Reported = 0  # parcels for which there was no room
    alone: Reported = 0  # steps without a learner
    stopped: Reported = 0  # periods without a step, for lack of a learner


@dataclass(frozen=True, slots=True)
class ActorStatus:
    """One actor as the learner sees it."""

    name: str
    state: str  # an ActorState; a newer learner may know more of them
    seats: Reported = 1
    steps_per_second: float | None = None
    episodes: Reported = 0
    version: Reported = 0
    acknowledged: Reported = 0  # parcels
    waiting: Reported = 0  # parcels that it holds: unsent or not acknowledged
    seen_ago: float = 0.0  # seconds
    proven: bool = True  # a parcel of it was taken, in this epoch or an earlier one
    real_time: RealTimeStatus | None = None  # of an actor at a fixed rate
    lost_steps: Reported = 0  # that it took and did not record
    time: dict[str, float] = field(default_factory=dict)  # shares, of actor.times.Part
    hangs_s: float = 0.0  # that the present step of its environments takes; 0: it is no suspect
    memory: dict[str, Reported] = field(default_factory=dict)  # bytes, by part


@dataclass(frozen=True, slots=True)
class FigureStatus:
    """The latest values of one metric."""

    mean: float | None
    spread: float | None = None  # standard deviation of the values
    count: Count = 0  # values that mean and spread are taken over


@dataclass(frozen=True, slots=True)
class EvaluationStatus:
    """The newest evaluation, and the best mean so far."""

    mean: float | None
    episodes: Count
    version: Count
    best: float | None
    length_mean: float | None = None
    cut: Count = 0  # episodes that reached the cap of steps


@dataclass(frozen=True, slots=True)
class WaitingStatus:
    """The side that waited most during the last seconds. People read `formatting.waiting`."""

    cause: str = Cause.NONE  # of core.pacing.Cause; a newer learner may know more of them
    number: Count = 0  # rows or updates that are missing now
    share: float = 0.0  # of the last seconds, 0 to 1


@dataclass(frozen=True, slots=True)
class GradientStatus:
    """The books of workers' gradients: received = applied + waiting + repeated + refused.

    They begin again with each start of the learner.
    """

    received: Count = 0  # messages
    applied: Count = 0
    waiting: Count = 0  # for their step
    repeated: Count = 0
    refused: dict[str, Count] = field(default_factory=dict)  # by reason


@dataclass(frozen=True, slots=True)
class CommandStatus:
    """The books of commands over the network: received = done + waiting + repeated + refused.

    They begin again with each start of the learner.
    """

    received: Count = 0
    done: Count = 0
    waiting: Count = 0
    repeated: Count = 0
    refused: dict[str, Count] = field(default_factory=dict)  # by reason


@dataclass(frozen=True, slots=True)
class OpponentStatus:
    """The games against one opponent, of all versions in all seats."""

    opponent: str
    wins: Count
    draws: Count
    losses: Count


@dataclass(frozen=True, slots=True)
class GamesStatus:
    """The games of the run: played = wins + draws + losses."""

    played: Count = 0
    wins: Count = 0
    draws: Count = 0
    losses: Count = 0
    score: float | None = None  # since the archived version before the newest; a draw is 0.5
    elo: float | None = None  # of the live policy; random actions have 0, if they were played
    elo_error: float | None = None  # standard deviation
    opponents: tuple[OpponentStatus, ...] = ()  # at most 32, those with the most games


@dataclass(frozen=True, slots=True)
class ProblemStatus:
    """The whole text of one of the problems, such as a traceback: at most 40 lines, the last."""

    problem: str  # as it is among the problems
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """Everything that a learner shows. None: not known yet. Rates are per second.

    A reader of another release ignores fields that it does not know, and fills in defaults for
    those that are missing: add fields with a default, never change the meaning of one.
    """

    run: str
    policy: str = DEFAULT_POLICY
    mode: str = "async"
    state: str = "run"  # of common.protocol.messages.State
    environment: str = ""
    algorithm: str = ""
    device: str = ""
    folder: str = ""
    join: str = ""  # the line to paste on another machine: actor HOST:PORT

    seconds: float = 0.0  # since this process began, by the monotonic clock
    idle_seconds: float = 0.0  # since steps or updates last grew
    steps: Count = 0
    steps_target: Count | None = None
    until: str = ""  # the goal as it was written
    goal_seconds: float | None = (
        None  # to the goal, at present rates and trends; None: not in sight
    )
    updates: Count = 0
    skipped: Count = 0  # of these, without a step: loss or gradients were not finite
    epoch: Count = 0
    version: Count = 0

    episodes: Count = 0
    return_mean: float | None = None  # over the last 100 episodes
    return_spread: float | None = None  # standard deviation of these
    return_history: tuple[float | None, ...] = ()  # at most 40, over the whole run
    length_mean: float | None = None
    evaluation: EvaluationStatus | None = None
    evaluation_history: tuple[float | None, ...] = ()  # at most 40, since this process began
    metrics: dict[str, float | None] = field(default_factory=dict)
    """Of the algorithm, each the mean of its latest updates, and of exploration."""
    figures: dict[str, FigureStatus] = field(default_factory=dict)
    """Metrics of one's own, by the names of their curves."""

    steps_per_second: float | None = None
    updates_per_second: float | None = None
    ratio_wanted: float | None = None
    ratio_held: float | None = None
    weight: float = 1.0  # of the wanted one, as it was set while training
    steered: dict[str, float | str | None] = field(default_factory=dict)
    """Settings that were changed while training, by the names of their flags."""
    waiting: WaitingStatus = WaitingStatus()
    verdict: Verdict = field(default_factory=Verdict)  # which side holds the run up
    training_time: dict[str, float] = field(default_factory=dict)  # shares, of core.split.Part
    actors_time: dict[str, float] = field(default_factory=dict)  # the mean of those that collect
    disk_busy: float | None = None  # share of the last seconds in which the journal wrote or synced
    network_busy: float | None = None  # so, in which the network thread worked
    lag_p50: float | None = None  # versions between the one that collected a row and the newest
    lag_p95: float | None = None
    replay_size: Count = 0
    replay_capacity: Count = 0
    update_split: dict[str, float | None] = field(default_factory=dict)  # seconds by part
    cpu: float | None = None  # percent of one processor, of this process
    machine_cpu: float | None = None  # percent of all processors
    memory: Count = 0  # bytes, of this process
    machine_memory: float | None = None  # percent
    memory_parts: dict[str, Count] = field(default_factory=dict)  # bytes, of this process
    bytes_in: Count = 0  # of messages that came from actors
    bytes_out: Count = 0  # of messages on the feed, however many receive them
    bytes_in_per_second: float | None = None
    bytes_out_per_second: float | None = None
    checkpoint_pause_s: float | None = None  # of training, for the last checkpoint

    received: Count = 0  # parcels: accepted + duplicates + refused
    duplicates: Count = 0
    lost: Count = 0  # numbers that actors gave up and that never arrived, by their own word
    refused: dict[str, Count] = field(default_factory=dict)  # by reason
    gradients: GradientStatus = GradientStatus()  # of workers
    commands: CommandStatus = CommandStatus()  # of those who steer

    games: GamesStatus = GamesStatus()
    archived: Count = 0  # versions

    actors: tuple[ActorStatus, ...] = ()
    more_actors: Count = 0  # without a row of their own
    problems: tuple[str, ...] = ()  # the latest, newest last
    problem_texts: tuple[ProblemStatus, ...] = ()  # of those that have more than one line

    @property
    def present(self) -> int:
        """The number of actors that take part."""
        return sum(actor.state not in ABSENT for actor in self.actors) + self.more_actors

    @property
    def progress(self) -> float | None:
        """The part of the wanted steps that was taken, 0 to 1; None without a target."""
        return min(1.0, self.steps / self.steps_target) if self.steps_target else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the remaining steps take at the present rate; None if that is unknown."""
        if not self.steps_target or not self.steps_per_second:
            return None
        return max(0, self.steps_target - self.steps) / self.steps_per_second


def to_document(status: Status) -> str:
    """Return the status as one line of strict JSON."""
    return as_json(status)


def as_json(status: Any) -> str:
    """Return a dataclass as one line of strict JSON: a number that is not finite becomes null."""
    return msgspec.json.encode(_bounded(msgspec.to_builtins(status))).decode()


def from_document(text: str) -> Status:
    """Return the status in a document of this release or another; raise `Refused` for the rest."""
    try:
        status = msgspec.json.decode(text, type=Status)
    except (ValueError, RecursionError) as error:
        raise Refused("malformed", f"this is not the status of a learner: {error}") from error
    return msgspec.convert(_bounded(msgspec.to_builtins(status)), Status)


def _bounded(plain: Any) -> Any:
    """Return plain data with figures that every reader takes, and texts that steer no terminal."""
    if isinstance(plain, str):
        return printable(plain)
    if isinstance(plain, dict):
        return {printable(name): _bounded(value) for name, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [_bounded(value) for value in plain]
    if isinstance(plain, float):
        return plain if math.isfinite(plain) else None
    return min(max(plain, -LARGEST), LARGEST) if type(plain) is int else plain
