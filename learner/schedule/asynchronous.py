"""The async mode: actors and learner run side by side, and pacing holds the replay ratio."""

from dataclasses import dataclass

from farflung.learner.core.actions import PUBLISH, STOP, UPDATE, Action, Insert, Wait
from farflung.learner.core.state import CoreState
from farflung.learner.endpoint.item_queue import ItemQueue
from farflung.learner.schedule.schedule import NEVER, Moment

PUBLISH_S = 0.05  # at least, between two versions
TOGETHER_ROWS = 4096  # in one insert: beyond it only the memory that an insert takes would grow


@dataclass(frozen=True, slots=True)
class Asynchronous:
    """Insert first, then update, publish now and then, and wait only where nothing can be done."""

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
        if queue.parcels and (fitting := core.pacing.fit(queue.rows(), TOGETHER_ROWS)):
            return Insert(fitting)
        if core.pacing.may_update:
            return UPDATE
        if may_publish and core.unpublished:
            return PUBLISH  # learning pauses: actors get what was learned last
        return Wait(core.pacing.waiting)

    def room(self, core: CoreState, moment: Moment) -> int:
        """Return the rows that pacing has room for, and no more than the run still wants."""
        return min(core.pacing.room, moment.rows_wanted)
