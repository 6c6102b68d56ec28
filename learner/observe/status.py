"""What a learner shows of itself: one frozen document for the panel, plain lines, JSON, metrics and whoever watches the feed."""

import json
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from farflung.common.process.errors import Refused
from farflung.common.protocol.plain import from_plain, to_plain


class ActorState(StrEnum):
    """What an actor is about, in a word."""

    JOINING = "joining"  # heard of, nothing collected yet
    RUNNING = "running"
    WAITING = "waiting"  # it has no credit: pacing or memory holds it back
    EVALUATING = "evaluating"
    SILENT = "silent"  # not heard for longer than its steps explain
    LEFT = "left"  # it said goodbye


@dataclass(frozen=True, slots=True)
class ActorStatus:
    """One actor as the learner sees it."""

    name: str
    state: str  # an ActorState; a newer learner may know more words
    seats: int = 1
    steps_per_second: float | None = None
    episodes: int = 0
    version: int = 0
    acknowledged: int = 0  # parcels
    waiting: int = 0  # parcels that it holds: unsent or not acknowledged
    seen_ago: float = 0.0  # seconds


@dataclass(frozen=True, slots=True)
class EvaluationStatus:
    """The newest evaluation, and the best mean so far."""

    mean: float
    episodes: int
    version: int
    best: float
    length_mean: float | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """Everything that anybody is shown. `None` means that nothing is known yet; rates are per second, durations seconds."""

    run: str
    policy: str = "default"
    mode: str = "async"
    state: str = "run"  # a common.messages.State
    environment: str = ""
    algorithm: str = ""
    device: str = ""
    folder: str = ""
    join: str = ""  # the line to paste on another machine: actor HOST:PORT

    seconds: float = 0.0  # since this process began, by the monotonic clock
    idle_seconds: float = 0.0  # since steps or updates last grew
    steps: int = 0
    steps_target: int | None = None
    until: str = ""  # the goal as it was written
    updates: int = 0
    skipped: int = 0  # of these, without a step: loss or gradients were not finite
    epoch: int = 0
    version: int = 0

    episodes: int = 0
    return_mean: float | None = None  # over the last 100 episodes
    return_history: tuple[float, ...] = ()  # at most 40, over the whole run: the sparkline
    length_mean: float | None = None
    evaluation: EvaluationStatus | None = None
    loss: float | None = None
    epsilon: float | None = None
    learning_rate: float | None = None

    steps_per_second: float | None = None
    updates_per_second: float | None = None
    ratio_wanted: float | None = None
    ratio_held: float | None = None
    waiting: str = ""  # a short sentence: which side waited most lately, for what, and how often
    lag_p50: float | None = None  # versions between what a row was collected with and the newest
    lag_p95: float | None = None
    replay_size: int = 0
    replay_capacity: int = 0
    checkpoint_pause_s: float | None = None  # how long training stopped for the last one

    received: int = 0  # parcels: accepted + duplicates + refused
    duplicates: int = 0
    lost: int = 0  # a reported breach of the promise; stays 0
    refused: dict[str, int] = field(default_factory=dict)  # by reason

    actors: tuple[ActorStatus, ...] = ()
    problems: tuple[str, ...] = ()  # the latest, newest last
    metrics: dict[str, float | None] = field(default_factory=dict)  # the algorithm's own figures

    @property
    def progress(self) -> float | None:
        """The part of the wanted steps that was taken, 0 to 1; None without a target."""
        return min(1.0, self.steps / self.steps_target) if self.steps_target else None

    @property
    def seconds_left(self) -> float | None:
        """How long the remaining steps take at the present rate; None where that cannot be said."""
        if not self.steps_target or not self.steps_per_second:
            return None
        return max(0, self.steps_target - self.steps) / self.steps_per_second


def to_document(status: Status) -> str:
    """The status as one line of strict JSON: a number that is not finite becomes null."""
    return json.dumps(_finite(to_plain(status)), separators=(",", ":"), allow_nan=False)


def from_document(text: str) -> Status:
    """The status that `to_document` wrote, here or elsewhere; raises `Refused` for anything else."""
    try:
        return from_plain(Status, json.loads(text))
    except (ValueError, OverflowError, RecursionError) as error:
        raise Refused("malformed", f"this is not the status of a learner: {error}") from error


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value
