"""The sequential mode: actors and learner take turns in one process, and repeat to the bit."""

from dataclasses import dataclass

from farflung.learner.core.actions import PUBLISH, STOP, UPDATE, Action, Insert, Wait
from farflung.learner.core.state import CoreState
from farflung.learner.endpoint.item_queue import ItemQueue
from farflung.learner.schedule.schedule import NEVER, Moment

ROOM = 1 << 40  # rows: the order of the turns paces collection


@dataclass(frozen=True, slots=True)
class Sequential:
    """Rounds: publish, let every actor take its turn, insert, make all updates that are due."""

    def decide(self, core: CoreState, queue: ItemQueue, moment: Moment) -> Action:
        """Return the next action. A run ends between two rounds only."""
        if queue.parcels:
            return Insert(queue.parcels)
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
