"""The async mode: everybody runs, and pacing holds the replay ratio. This loop is the training thread."""

import gc
import time
from collections.abc import Iterator

from common.trajectory import Parcel
from learner.herald import Outlook
from learner.inlet import Inlet
from learner.link import Link
from learner.pacing import Pacing
from learner.session import Session
from learner.training import Training

PUBLISH_S = 0.05  # at least, between two versions
WAIT_S = 0.05  # for experience, when nothing may be learned
TOGETHER_ROWS = 4096  # inserted in one go where so many wait: beyond it only the memory that it takes would grow


def train(training: Training, session: Session, link: Link, inlet: Inlet, publish_every: int) -> None:
    """Insert what may be inserted, update while it may be updated, publish now and then, until the session is over."""
    gc.freeze()  # torch and what else is here to stay: else a full collection looks through all of it every few thousand parcels
    link.publish(training.publish())
    published_at = time.monotonic()
    while session.goes_on(link.view):
        link.check()
        inserted = insert(training, inlet)
        inlet.room = min(training.pacing.room, session.rows_wanted)
        link.outlook = Outlook(inlet.room, training.steps, training.updates)
        learned = training.pacing.may_update
        if learned:
            training.update()
        now = time.monotonic()
        wanted = publish_every if learned else 1
        if training.unpublished >= wanted and now - published_at >= PUBLISH_S:
            link.publish(training.publish())
            published_at = now
        if not (learned or inserted):
            inlet.wait(WAIT_S)
    link.publish(training.publish())


def settle(training: Training, inlet: Inlet) -> None:
    """Take what was acknowledged and is still on its way: after the network thread has ended, whatever the pace."""
    while inlet.first() is not None:
        training.insert([inlet.take()])


def insert(training: Training, inlet: Inlet) -> bool:
    """Take what pacing lets in; gives whether there was any."""
    any_inserted = False
    while training.insert(_admitted(training.pacing, inlet)):
        any_inserted = True
    return any_inserted


def _admitted(pacing: Pacing, inlet: Inlet) -> Iterator[Parcel]:
    """The next parcels that may be inserted together: pacing is asked about each when those before it are counted."""
    rows = 0
    while rows < TOGETHER_ROWS and (parcel := inlet.first()) is not None and (parcel.evaluation or pacing.may_insert(parcel.rows)):
        rows += parcel.rows
        yield inlet.take()
