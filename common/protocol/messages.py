"""The messages besides parcels and weights: what actors and learners send each other."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from farflung.common.data.fields import (
    ACTOR,
    IDENTITY_BITS,
    ActorName,
    Identity,
    Name,
    Natural,
    Positive,
)
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version


class State(StrEnum):
    """The state of a learner, as its beacon names it."""

    RESTORING = "restoring"  # it resumes a run and reads its journal
    RUN = "run"
    PAUSE = "pause"  # it takes what is on its way, and grants nothing
    AWAY = "away"  # it ends, and its run does not: wait for it
    STOP = "stop"  # the run is over

    @property
    def takes(self) -> bool:
        """Return whether a learner in this state takes parcels."""
        return self not in (State.AWAY, State.STOP)


Reason = Annotated[str, Meta(pattern=r"\A[ -~]{1,64}\Z")]  # of a refusal: one line of plain text
# Microseconds of a process's monotonic clock
Moment = Annotated[int, Meta(ge=0, lt=1 << IDENTITY_BITS)]
Place = Annotated[int, Meta(ge=-1, lt=1 << IDENTITY_BITS)]  # in the seed tree; -1: none


class Credit(Struct, frozen=True, forbid_unknown_fields=True):
    """The flow control: the parcels that an actor may have unacknowledged."""

    messages: int
    size: int  # bytes


class Acknowledgement(Struct, frozen=True, forbid_unknown_fields=True):
    """The numbers of one incarnation that a learner has, on a topic of that incarnation.

    It is state, never an event, so losing one is harmless. An actor obeys those of the learner
    that publishes the beacons it obeys, and no others.
    """

    run: Name
    policy: Name
    actor: ActorName
    incarnation: int
    learner_id: int
    epoch: int
    highest: int  # every number up to it counts, except `missing` and `refused`
    missing: tuple[int, ...]
    # Numbers at or above the actor's base, with their reasons.
    refused: tuple[tuple[int, Reason], ...]
    credit: Credit


class Beacon(Struct, frozen=True, forbid_unknown_fields=True):
    """The state that all actors share, every second and when it changes: losing one is harmless."""

    run: Name
    policy: Name
    learner_id: int  # random, drawn at each start of a learner process
    version: Version
    steps: Natural
    updates: Natural
    state: State


class Announcement(Struct, frozen=True, forbid_unknown_fields=True):
    """The spec on the feed. A private snapshot adds the actor's place in the seed tree."""

    spec: Spec
    learner_id: int
    epoch: int
    index: Place = -1  # which actor of the run; -1 where it is not private
    start: Place = -1  # how often this index joined


class Hello(Struct, frozen=True, forbid_unknown_fields=True):
    """The first message of an actor: the version it holds, and its lowest unacknowledged number."""

    run: Name
    policy: Name
    actor: ActorName
    incarnation: Identity
    nonce: Identity  # the snapshot it confirms
    version: Version
    base: Positive
    seats: Natural = 1
    evaluates: bool = False


class Problem(Struct, frozen=True, forbid_unknown_fields=True):
    """Something that went wrong at an actor, for the learner's screen."""

    number: Natural
    kind: str
    text: str


class Report(Struct, frozen=True, forbid_unknown_fields=True):
    """Every two seconds: cumulative counters, and the latest problems with their numbers."""

    run: Name
    policy: Name
    actor: ActorName
    incarnation: Identity
    base: Positive
    version: Version
    counters: dict[str, float] = {}
    problems: tuple[Problem, ...] = ()


class Bye(Struct, frozen=True, forbid_unknown_fields=True):
    """An actor leaves on purpose."""

    run: Name
    policy: Name
    actor: ActorName
    incarnation: Identity
    base: Positive
    reason: str


class Numbered(Struct, frozen=True, forbid_unknown_fields=True):
    """The fields by which a message of a sender is counted once, however often it arrives."""

    run: Name
    policy: Name
    actor: ActorName  # the sender
    incarnation: Identity  # of its process
    sequence: Positive
    base: Positive  # the lowest number that the sender still holds

    def __post_init__(self) -> None:
        """Refuse a number below the base."""
        if self.base > self.sequence:
            raise ValueError(f"number {self.sequence} is below the base {self.base}")


class Command(Numbered, frozen=True, forbid_unknown_fields=True):
    """A request to a learner, executed once. Its sender is the `actor`."""

    rows: ClassVar[int] = 0  # environment steps in it

    epoch: Natural  # of the learner that is asked: another start of it refuses the command
    name: Name
    arguments: dict[str, Any]  # plain values


class Telemetry(Struct, frozen=True, forbid_unknown_fields=True):
    """A learner's figures, for status, dashboards and metrics."""

    run: str
    policy: str
    learner_id: int
    document: str  # JSON


class Probe(Struct, frozen=True, forbid_unknown_fields=True):
    """A learner asks all its actors for spans, and for the time on their clocks."""

    run: Name
    policy: Name
    learner_id: int
    asked: Moment  # by the learner's clock
    room: Natural  # spans that an actor may send before the next probe


class Spans(Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of an actor, at once: the spans that it recorded since the one before."""

    run: Name
    policy: Name
    actor: ActorName
    incarnation: Identity
    asked: Moment  # as in the probe
    at: Moment  # by the actor's clock, between the probe and this answer
    lost: Natural  # spans without room, since it began
    threads: tuple[Name, ...]
    names: tuple[Name, ...]
    spans: bytes


Traced = Annotated[str, Meta(pattern=rf"\A(?:{ACTOR.pattern})?\Z")]  # actor; empty: the learner


class Trace(Struct, frozen=True, forbid_unknown_fields=True):
    """The spans of one process, passed on by the learner to those who watch."""

    run: Name
    policy: Name
    learner_id: int
    actor: Traced
    asked: Moment
    at: Moment
    received: Moment  # by the learner's clock, as `asked`
    lost: Natural
    threads: tuple[Name, ...]
    names: tuple[Name, ...]
    spans: bytes
