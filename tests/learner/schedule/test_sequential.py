"""The schedule of the sequential mode, as a table: state in, action out."""

import pytest
from support.makers import a_parcel, an_item

from farflung.common.data.weights import Version
from farflung.learner.core.pacing import Cause, CoreState, Pacing, Waiting
from farflung.learner.endpoint.items import ItemQueue
from farflung.learner.schedule.schedule import (
    NEVER,
    PUBLISH,
    STOP,
    UPDATE,
    InRounds,
    Insert,
    Moment,
    Wait,
)


def a_state(rows=0, updates=0, published_steps=0):
    """One sample a row, batches of 1."""
    pacing = Pacing(1.0, 1, 0, 5, rows=rows, samples=updates)
    return CoreState(pacing, Version(1, 1), rows, updates, published_steps)


@pytest.mark.parametrize(
    ("state", "parcels", "moment", "action"),
    [
        (a_state(), 0, Moment(), PUBLISH),
        (a_state(), 0, Moment(published_at=0.0), Wait(Waiting(Cause.WARMUP, 1))),
        (a_state(), 3, Moment(published_at=0.0), Insert(3, in_order=True)),
        (a_state(100, 9, 100), 3, Moment(published_at=0.0, over=True), Insert(3, in_order=True)),
        (a_state(rows=5), 0, Moment(published_at=0.0, over=True), UPDATE),
        (a_state(rows=5, updates=5), 0, Moment(published_at=0.0), PUBLISH),
        (a_state(rows=5, updates=5), 0, Moment(published_at=0.0, over=True), STOP),
        (a_state(5, 5, 5), 0, Moment(published_at=0.0), Wait(Waiting(Cause.ROWS, 1))),
        (a_state(), 0, Moment(published_at=NEVER, over=True), STOP),
    ],
    ids=[
        "first version",
        "turns",
        "all that the turns brought",
        "whatever the pace",
        "updates of the last round",
        "next round",
        "over between two rounds",
        "turns that brought no rows",
        "over before the first round",
    ],
)
def test_sequential_decides(state, parcels, moment, action):
    """One row of the table."""
    queue = ItemQueue()
    queue.put([an_item(a_parcel((5,)))] * parcels)
    assert InRounds().decide(state, queue, moment) == action


def test_sequential_bounds_no_credit():
    """The order of the turns paces collection."""
    assert InRounds().room(a_state(rows=1000), Moment(rows_wanted=0)) > 10**9
