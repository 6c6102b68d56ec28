"""Schedules: each decides what the training thread does next, as data.

An action states what is done and with how much, never with which objects. A log of them together
with the parcels and gradients in their order is enough to do the same again, in another process or
after a crash.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from farflung.common.protocol.wire import Kind
from farflung.learner.config import LearnerConfig
from farflung.learner.core.pacing import CoreState, Waiting
from farflung.learner.endpoint.items import PARCELS, ItemQueue

NEVER = float("-inf")
PUBLISH_S = 0.05  # at least, between two versions of the async mode
TOGETHER_ROWS = 8192  # in one insert: beyond it only the memory that an insert takes would grow
ROOM = 1 << 40  # rows of the sequential mode: the order of the turns paces collection


@dataclass(frozen=True, slots=True)
class Insert:
    """Take so many parcels from the head of the queue into the replay, in one go."""

    parcels: int


@dataclass(frozen=True, slots=True)
class Update:
    """Sample a batch, compute gradients, apply them."""


@dataclass(frozen=True, slots=True)
class Apply:
    """Take so many gradients from the head of the queue, and take one step along their mean."""

    gradients: int


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish the weights under the next version."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until an item comes, or for a moment."""

    waiting: Waiting  # the reason: an enum and a number


@dataclass(frozen=True, slots=True)
class Stop:
    """End the run."""


Action = Insert | Update | Apply | Publish | Wait | Stop

UPDATE, PUBLISH, STOP = Update(), Publish(), Stop()


@dataclass(slots=True)
class Moment:
    """Facts for a decision that the core does not know: the time, and the end of the run."""

    now: float = 0.0  # seconds, by the clock of the loop
    published_at: float = NEVER  # by the same clock; NEVER: not yet by this process
    over: bool = False  # the goal is reached, or a signal came
    rows_wanted: int = 0  # environment steps until the goal of --steps


class Schedule(Protocol):
    """The order of inserts, updates, applications and publications in one mode.

    Both methods are pure: they read core, queue and moment, and change nothing. So a test is a
    table, and several processes that do the same actions stay the same.
    """

    @property
    def takes(self) -> frozenset[Kind]:
        """The kinds of numbered messages that it has a use for; all others are refused."""
        ...

    def decide(self, core: CoreState, queue: ItemQueue, moment: Moment) -> Action:
        """Return the next action."""
        ...

    def room(self, core: CoreState, moment: Moment) -> int:
        """Return how many rows may be on their way into the replay: the credit of all senders."""
        ...


@dataclass(frozen=True, slots=True)
class Asynchronous:
    """The async mode: actors and learner run side by side, and pacing holds the replay ratio.

    Insert first, then update, publish now and then, and wait only where nothing can be done.
    """

    takes: ClassVar[frozenset[Kind]] = PARCELS

    publish_every: int  # updates between two versions

    def decide(self, core: CoreState, queue: ItemQueue, moment: Moment) -> Action:
        """Return the next action."""
        if moment.published_at == NEVER:
            return PUBLISH  # actors cannot act without weights
        if moment.over:
            return PUBLISH if core.unpublished else STOP
        may_publish = moment.now - moment.published_at >= PUBLISH_S
        if may_publish and core.unpublished >= self.publish_every:
            return PUBLISH
        if queue.parcels and (fitting := core.pacing.fit(queue.parcels.rows(), TOGETHER_ROWS)):
            return Insert(fitting)
        if core.pacing.may_update:
            return UPDATE
        if may_publish and core.unpublished:
            return PUBLISH  # learning pauses: actors get what was learned last
        return Wait(core.pacing.waiting)

    def room(self, core: CoreState, moment: Moment) -> int:
        """Return the rows that pacing has room for, and no more than the run still wants."""
        return min(core.pacing.room, moment.rows_wanted)


@dataclass(frozen=True, slots=True)
class Sequential:
    """The sequential mode: actors and learner take turns in one process, and repeat to the bit.

    Rounds: publish, let every actor take its turn, insert, make all updates that are due.
    """

    takes: ClassVar[frozenset[Kind]] = PARCELS

    def decide(self, core: CoreState, queue: ItemQueue, moment: Moment) -> Action:
        """Return the next action. A run ends between two rounds only."""
        if queue.parcels:
            return Insert(len(queue.parcels))
        if core.pacing.may_update:
            return UPDATE
        if moment.over:
            return STOP
        if moment.published_at == NEVER or core.steps > core.published_steps:
            return PUBLISH
        return Wait(core.pacing.waiting)

    def room(self, core: CoreState, moment: Moment) -> int:
        """Return no bound."""
        return ROOM


def schedule_of(config: LearnerConfig) -> Schedule:
    """Return the schedule of a mode."""
    return Sequential() if config.mode == "sequential" else Asynchronous(config.publish_every)
