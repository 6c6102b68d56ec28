"""The schedule of the async mode, as tables: state in, action out."""

import pytest
from support.makers import a_parcel, an_evaluation, an_item

from farflung.common.data.weights import Version
from farflung.learner.core.pacing import Cause, CoreState, Pacing, Waiting
from farflung.learner.endpoint.items import ItemQueue
from farflung.learner.schedule.schedule import (
    NEVER,
    PUBLISH,
    STOP,
    TOGETHER_ROWS,
    UPDATE,
    Asynchronous,
    Insert,
    Moment,
    Wait,
)

SCHEDULE = Asynchronous(publish_every=4)


def a_state(rows=0, updates=0, published=0, warmup=0, tolerance=12.0):
    """One sample a row, batches of 1, parcels of 5 rows."""
    pacing = Pacing(1.0, 1, warmup, 5, tolerance, rows=rows, samples=updates)
    return CoreState(pacing, Version(1, 1), rows, updates, published_updates=published)


def a_queue(*parcels):
    """Parcels by their rows; 0 is an evaluation."""
    queue = ItemQueue()
    queue.put([an_item(a_parcel((n,)) if n else an_evaluation([1.0])) for n in parcels])
    return queue


def decide(state, *parcels, since_s=0.02, **moment):
    """The action so many seconds after the last publication."""
    moment = {"now": 100.0, "published_at": 100.0 - since_s} | moment
    return SCHEDULE.decide(state, a_queue(*parcels), Moment(**moment))


WAIT_FOR_ONE = Wait(Waiting(Cause.ROWS, 1))


@pytest.mark.parametrize(
    ("state", "parcels", "moment", "action"),
    [
        (a_state(), (), {"published_at": NEVER}, PUBLISH),
        (a_state(), (5,), {"published_at": NEVER}, PUBLISH),
        (a_state(), (), {"published_at": NEVER, "over": True}, PUBLISH),
        (a_state(), (), {}, Wait(Waiting(Cause.WARMUP, 1))),
        (a_state(rows=3, updates=3), (), {}, WAIT_FOR_ONE),
        (a_state(), (5, 5, 5), {}, Insert(2)),
        (a_state(rows=10), (5,), {}, UPDATE),  # no room: collection waits
        (a_state(rows=10), (0, 0, 5), {}, Insert(2)),  # evaluations never wait for room
        (a_state(rows=10, updates=3), (5,), {}, Insert(1)),  # inserts go before updates
        (a_state(rows=10, updates=9), (), {}, UPDATE),
        (a_state(rows=10, updates=9), (), {"since_s": 0.06}, PUBLISH),
        (a_state(rows=10, updates=9, published=6), (), {"since_s": 0.06}, UPDATE),
        (a_state(rows=10, updates=9, published=5), (), {"since_s": 0.06}, PUBLISH),
        (a_state(rows=10, updates=9, published=5), (2,), {"since_s": 0.06}, PUBLISH),
        (a_state(rows=10, updates=10, published=9), (), {"since_s": 0.06}, PUBLISH),
        (a_state(rows=10, updates=10, published=9), (), {"since_s": 0.04}, WAIT_FOR_ONE),
        (a_state(rows=10, updates=10, published=10), (), {"since_s": 99.0}, WAIT_FOR_ONE),
        (a_state(rows=10, updates=9), (5,), {"over": True}, PUBLISH),
        (a_state(rows=10, updates=9, published=9), (5,), {"over": True}, STOP),
    ],
    ids=[
        "first version",
        "first version before the first parcel",
        "first version even where the run is over",
        "warm-up",
        "updates wait",
        "as many parcels as fit",
        "no room",
        "evaluations",
        "insert before update",
        "update",
        "enough updates and time",
        "too few updates",
        "enough updates",
        "publish before insert",
        "learning pauses",
        "learning pauses, too early",
        "nothing new",
        "over: the last version",
        "over",
    ],
)
def test_asynchronous_decides(state, parcels, moment, action):
    """One row of the table."""
    assert decide(state, *parcels, **moment) == action


def test_asynchronous_bounds_the_rows_of_one_insert():
    """A full queue enters the replay in pieces of some 4096 rows."""
    state = a_state(warmup=100_000)
    assert decide(state, *[512] * 20) == Insert(TOGETHER_ROWS // 512)


def test_asynchronous_changes_nothing_by_deciding():
    """The same question has the same answer."""
    queue, state, moment = a_queue(5, 5, 5), a_state(), Moment(now=1.0, published_at=1.0)
    assert SCHEDULE.decide(state, queue, moment) == SCHEDULE.decide(state, queue, moment)
    assert (len(queue.parcels), state) == (3, a_state())


@pytest.mark.parametrize(("wanted", "room"), [(1000, 10), (3, 3), (0, 0)])
def test_asynchronous_grants_no_more_rows_than_the_run_wants(wanted, room):
    """The last rows of --steps bound the credit, so that little is collected in vain."""
    assert SCHEDULE.room(a_state(rows=2), Moment(rows_wanted=wanted)) == room


def test_versions_follow_whole_rollouts():
    """Rollouts of 4 rows, learned from twice: a version after 8 updates, and none after 1 to 7."""
    for updates in range(17):
        pacing = Pacing(2.0, 1, 0, 5, rows=12, samples=updates, rollout=4)
        state = CoreState(pacing, Version(1, 1), 12, updates)
        action = PUBLISH if updates in (8, 16) else UPDATE
        assert decide(state, since_s=1.0) == action, updates
