"""Schedules: each decides what the training thread does next, as data.

An action states what is done and with how much, never with which objects. A log of them together
with the parcels and gradients in their order is enough to do the same again, in another process or
after a crash.
"""

from dataclasses import dataclass
from itertools import takewhile
from operator import attrgetter
from typing import ClassVar, Protocol

from farflung.common.protocol.wire import Kind
from farflung.learner.config import LearnerConfig
from farflung.learner.core.pacing import FOR_GRADIENTS, PAUSED, CoreState, Waiting
from farflung.learner.endpoint.items import PARCELS, ItemQueue
from farflung.learner.schedule.rounds import round_updates, rounds_of

NEVER = float("-inf")
PUBLISH_S = 0.05  # at least, between two versions of the async mode
TOGETHER_ROWS = 8192  # in one insert: beyond it only the memory that an insert takes would grow
ROOM = 1 << 40  # rows of the sequential mode: the order of the turns paces collection


@dataclass(frozen=True, slots=True)
class Insert:
    """Take so many parcels from the head of the queue into the replay, in one go."""

    parcels: int
    in_order: bool = False  # of the actors' indices, and not in that of arrival


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

    def missing(self, core: CoreState, queue: ItemQueue) -> list[int]:
        """Return the indices of the actors that a round still waits for."""
        ...

    @property
    def keeps_rounds(self) -> bool:
        """True if parcels enter the replay in whole rounds only, also at the end of a run."""
        ...


@dataclass(frozen=True, slots=True)
class Asynchronous:
    """The async mode: actors and learner run side by side, and pacing holds the replay ratio.

    Insert first, then update, publish now and then, and wait only where nothing can be done. With
    rollouts, a version follows all updates with one, and never some of them.
    """

    takes: ClassVar[frozenset[Kind]] = PARCELS

    keeps_rounds: ClassVar[bool] = False

    publish_every: int  # updates between two versions

    def decide(self, core: CoreState, queue: ItemQueue, moment: Moment) -> Action:
        """Return the next action."""
        if moment.published_at == NEVER:
            return PUBLISH  # actors cannot act without weights
        if moment.over:
            return PUBLISH if core.unpublished else STOP
        if core.paused:
            return Wait(PAUSED)
        may_publish = moment.now - moment.published_at >= PUBLISH_S and not core.pacing.is_within
        if may_publish and core.unpublished >= (core.publish_every or self.publish_every):
            return PUBLISH
        if inserts := self.inserts(core, queue):
            return inserts
        if core.pacing.may_update:
            return UPDATE
        if may_publish and core.unpublished:
            return PUBLISH  # learning pauses: actors get what was learned last
        return Wait(core.pacing.waiting)

    def inserts(self, core: CoreState, queue: ItemQueue) -> Insert | None:
        """Return the insert of all parcels that fit, if any do."""
        fitting = core.pacing.fit(queue.parcels.rows(), TOGETHER_ROWS)
        return Insert(fitting) if fitting else None

    def room(self, core: CoreState, moment: Moment) -> int:
        """Return the rows that pacing has room for, and no more than the run still wants."""
        return 0 if core.paused else min(core.pacing.room, moment.rows_wanted)

    def missing(self, core: CoreState, queue: ItemQueue) -> list[int]:
        """Return none: nothing waits for all actors."""
        return []


@dataclass(frozen=True, slots=True)
class FromWorkers:
    """The async mode where workers compute gradients, alone or beside updates of the learner's own.

    Each gradient is one step, in the order of arrival. A version is published at once after every
    `publish_every` updates: workers may wait for it.
    """

    takes: ClassVar[frozenset[Kind]] = PARCELS | {Kind.GRADIENTS}

    keeps_rounds: ClassVar[bool] = False

    own: Asynchronous
    alone: bool  # the learner has no rows of its own

    def decide(self, core: CoreState, queue: ItemQueue, moment: Moment) -> Action:
        """Return the next action."""
        if moment.published_at == NEVER:
            return PUBLISH
        if moment.over:
            return PUBLISH if core.unpublished else STOP
        if core.paused:
            return Wait(PAUSED)
        if core.unpublished >= self.own.publish_every:
            return PUBLISH
        if inserts := self.own.inserts(core, queue):
            return inserts
        if queue.gradients:
            return Apply(1)
        action = self.own.decide(core, queue, moment)
        return Wait(FOR_GRADIENTS) if self.alone and isinstance(action, Wait) else action

    def room(self, core: CoreState, moment: Moment) -> int:
        """Return the room of actors. Workers do not wait for it: their credit is fixed."""
        return ROOM if self.alone and not core.paused else self.own.room(core, moment)

    def missing(self, core: CoreState, queue: ItemQueue) -> list[int]:
        """Return none: nothing waits for all workers."""
        return []


@dataclass(frozen=True, slots=True)
class InRounds:
    """The sync mode, and the sequential one, which repeat to the bit.

    A round: publish, wait until every actor has played its share under that version, insert all of
    it in the order of the actors' indices, make all updates that are due. In the sequential mode
    actors take turns in the learner's process.
    """

    takes: ClassVar[frozenset[Kind]] = PARCELS

    actors: int = 0  # with the indices below it; 0: a round is what came in one turn of all
    updates: int = 0  # in each round after the warm-up; 0: as many as pacing allows

    @property
    def keeps_rounds(self) -> bool:
        """True if actors elsewhere play them: what came of the next one waits for a restart."""
        return self.actors > 0

    def decide(self, core: CoreState, queue: ItemQueue, moment: Moment) -> Action:
        """Return the next action. A run ends between two rounds, or while one is played."""
        is_between = core.steps == core.published_steps
        if is_between and moment.published_at == NEVER and not moment.over:
            return PUBLISH  # for the first time, or again after a restart
        if core.paused and not moment.over:
            return Wait(PAUSED)
        if count := self._ready(core, queue):
            return Insert(count, in_order=True)
        if not is_between:  # the round is in the replay
            if self._may_update(core):
                return UPDATE
            return STOP if moment.over else PUBLISH
        return STOP if moment.over else Wait(core.pacing.waiting)

    def room(self, core: CoreState, moment: Moment) -> int:
        """Return no bound: a round is one."""
        return 0 if core.paused else ROOM

    def missing(self, core: CoreState, queue: ItemQueue) -> list[int]:
        """Return the indices of the actors that a round still waits for."""
        if core.steps > core.published_steps:
            return []  # it is in the replay
        number = core.version.number
        ended = {
            place.actor_index
            for item in queue.parcels
            if (place := item.content.place) is not None
            and place.ends
            and item.content.version.number == number
        }
        return [index for index in range(self.actors) if index not in ended]

    def _ready(self, core: CoreState, queue: ItemQueue) -> int:
        """Return the number of parcels of a whole round, or of evaluations before it.

        After a restart of the learner, parcels of the next round may wait behind them already.
        """
        parcels = (item.content for item in queue.parcels)
        if core.steps > core.published_steps or self.missing(core, queue):
            return sum(1 for _ in takewhile(attrgetter("evaluation"), parcels))
        of_round = takewhile(lambda one: one.version.number <= core.version.number, parcels)
        return sum(1 for _ in of_round)

    def _may_update(self, core: CoreState) -> bool:
        return core.pacing.may_update and (not self.updates or core.unpublished < self.updates)


def schedule_of(config: LearnerConfig) -> Schedule:
    """Return the schedule of a mode."""
    if config.mode == "async":
        own = Asynchronous(config.publish_every)
        if config.gradients == "none":
            return own
        return FromWorkers(own, alone=config.gradients == "only")
    rounds = rounds_of(config)
    return InRounds(rounds.actors if rounds else 0, round_updates(config))
