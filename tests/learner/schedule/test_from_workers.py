"""The schedule of a learner with workers: a table of states and actions."""

import pytest
from support.makers import a_gradients_item, a_parcel, an_evaluation, an_item

from farflung.common.data.weights import Version
from farflung.common.protocol.wire import Kind
from farflung.learner.config import LearnerConfig
from farflung.learner.core.pacing import FOR_GRADIENTS, Cause, CoreState, Pacing, Waiting
from farflung.learner.endpoint.items import ItemQueue
from farflung.learner.schedule.schedule import (
    NEVER,
    PUBLISH,
    ROOM,
    STOP,
    UPDATE,
    Apply,
    Asynchronous,
    FromWorkers,
    Insert,
    Moment,
    Wait,
    schedule_of,
)

EVERY = 4


def decided(items=(), alone=True, moment=None, pacing=None, **state):
    """Return the action of a learner that publishes every four updates, a moment after that."""
    queue = ItemQueue()
    queue.put(list(items))
    core = CoreState(pacing or Pacing(1.0, 1, 0, 1), Version(1, 1), **state)
    schedule = FromWorkers(Asynchronous(EVERY), alone)
    return schedule.decide(core, queue, Moment(**{"published_at": 0.0} | (moment or {})))


GRADIENTS, EVALUATION = a_gradients_item(), an_item(an_evaluation([1.0]))


@pytest.mark.parametrize(
    ("items", "state", "moment", "action"),
    [
        ((GRADIENTS,), {}, {"published_at": NEVER}, PUBLISH),
        ((), {}, {}, Wait(FOR_GRADIENTS)),
        ((GRADIENTS, GRADIENTS), {}, {}, Apply(1)),
        ((GRADIENTS, EVALUATION), {}, {}, Insert(1)),
        ((GRADIENTS,), {"updates": 3}, {}, Apply(1)),
        ((GRADIENTS,), {"updates": 4}, {}, PUBLISH),
        ((GRADIENTS,), {"updates": 9, "published_updates": 6}, {"now": 9.0}, Apply(1)),
        ((), {"updates": 1}, {}, Wait(FOR_GRADIENTS)),
        ((), {"updates": 1}, {"now": 0.06}, PUBLISH),
        ((GRADIENTS,), {"updates": 1}, {"over": True}, PUBLISH),
        ((GRADIENTS,), {}, {"over": True}, STOP),
    ],
    ids=[
        "first version",
        "nothing",
        "one at a time",
        "evaluations first",
        "enough for no version",
        "enough for a version, at once",
        "counted from the last version",
        "too soon for a version",
        "nothing comes any more",
        "over: the last version",
        "over",
    ],
)
def test_learner_of_workers_alone_decides(items, state, moment, action):
    """One row of the table."""
    assert decided(items, moment=moment, **state) == action


@pytest.mark.parametrize(
    ("items", "rows", "action"),
    [
        ((an_item(a_parcel((1,))), GRADIENTS), 0, Insert(1)),
        ((GRADIENTS,), 5, Apply(1)),
        ((), 5, UPDATE),
        ((), 0, Wait(Waiting(Cause.WARMUP, 1))),
    ],
    ids=["rows", "gradients", "an update of its own", "nothing"],
)
def test_learner_with_rows_too_inserts_then_applies_then_updates(items, rows, action):
    """One row of the table."""
    assert decided(items, alone=False, pacing=Pacing(1.0, 1, 0, 1, rows=rows)) == action


def test_room_is_that_of_actors():
    """Workers alone need none; beside actors it is what pacing leaves."""
    core, moment = CoreState(Pacing(1.0, 1, 0, 1), Version(1, 1)), Moment(rows_wanted=3)
    rooms = [FromWorkers(Asynchronous(1), alone).room(core, moment) for alone in (True, False)]
    assert rooms == [ROOM, 3]


def test_gradients_are_taken_if_they_are_asked_for():
    """By both kinds of learners that have workers."""
    asked = [schedule_of(LearnerConfig(gradients=kind)) for kind in ("none", "only", "also")]
    takes = [Kind.GRADIENTS in schedule.takes for schedule in asked]
    assert takes == [False, True, True]
    assert [schedule.alone for schedule in asked[1:]] == [True, False]
