"""The async mode: everybody runs, and pacing holds the replay ratio. This loop is the training thread."""

import gc
import time
from collections.abc import Iterator

from farflung.common.data.parcel import Parcel
from farflung.learner.core.pacing import Pacing
from farflung.learner.core.training import Training
from farflung.learner.endpoint.parcel_queue import ParcelQueue
from farflung.learner.endpoint.publisher import Outlook
from farflung.learner.supervisor import Supervisor
from farflung.learner.transport.network_thread import NetworkThread

PUBLISH_S = 0.05  # at least, between two versions
WAIT_S = 0.05  # for experience, when nothing may be learned
TOGETHER_ROWS = 4096  # inserted in one go where so many wait: beyond it only the memory that it takes would grow


def train(
    training: Training,
    session: Supervisor,
    link: NetworkThread,
    queue: ParcelQueue,
    publish_every: int,
) -> None:
    """Insert what may be inserted, update while it may be updated, publish now and then, until the session is over."""
    gc.freeze()  # torch and what else is here to stay: else a full collection looks through all of it every few thousand parcels
    link.publish(training.publish())
    published_at = time.monotonic()
    while session.goes_on(link.view):
        link.check()
        inserted = insert(training, queue)
        queue.room = min(training.pacing.room, session.rows_wanted)
        link.outlook = Outlook(queue.room, training.steps, training.updates)
        learned = training.pacing.may_update
        if learned:
            training.update()
        now = time.monotonic()
        wanted = publish_every if learned else 1
        if training.unpublished >= wanted and now - published_at >= PUBLISH_S:
            link.publish(training.publish())
            published_at = now
        if not (learned or inserted):
            queue.wait(WAIT_S)
    link.publish(training.publish())


def settle(training: Training, queue: ParcelQueue) -> None:
    """Take what was acknowledged and is still on its way: after the network thread has ended, whatever the pace."""
    while queue.first() is not None:
        training.insert([queue.take()])


def insert(training: Training, queue: ParcelQueue) -> bool:
    """Take what pacing lets in; gives whether there was any."""
    any_inserted = False
    while training.insert(_admitted(training.pacing, queue)):
        any_inserted = True
    return any_inserted


def _admitted(pacing: Pacing, queue: ParcelQueue) -> Iterator[Parcel]:
    """The next parcels that may be inserted together: pacing is asked about each when those before it are counted."""
    rows = 0
    while (
        rows < TOGETHER_ROWS
        and (parcel := queue.first()) is not None
        and (parcel.evaluation or pacing.may_insert(parcel.rows))
    ):
        rows += parcel.rows
        yield queue.take()
