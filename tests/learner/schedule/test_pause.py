"""A pause: nothing is learned or collected until it is over."""

import pytest

from farflung.common.data.weights import Version
from farflung.learner.core.pacing import PAUSED, CoreState, Pacing
from farflung.learner.endpoint.items import ItemQueue
from farflung.learner.schedule.schedule import (
    PUBLISH,
    STOP,
    Asynchronous,
    FromWorkers,
    InRounds,
    Moment,
    Wait,
)

SCHEDULES = [
    Asynchronous(10),
    FromWorkers(Asynchronous(10), alone=True),
    FromWorkers(Asynchronous(10), alone=False),
    InRounds(2),
    InRounds(),
]


def paused():
    """Return the progress of a run that could make many updates."""
    pacing = Pacing(8, 32, 100, 64, rows=5000, samples=39_136)
    return CoreState(pacing, Version(1, 3), steps=5000, published_steps=5000, paused=True)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_paused_run_waits_and_grants_nothing(schedule):
    """Weights are published first, as after a restart; the end of a run comes all the same."""
    state, queue = paused(), ItemQueue()
    assert schedule.decide(state, queue, Moment()) == PUBLISH
    moment = Moment(now=10.0, published_at=1.0, rows_wanted=10_000)
    assert schedule.decide(state, queue, moment) == Wait(PAUSED)
    assert schedule.room(state, moment) == 0
    moment.over = True
    assert schedule.decide(state, queue, moment) == STOP
    moment.over, state.paused = False, False
    assert schedule.decide(state, queue, moment) != Wait(PAUSED)
    assert schedule.room(state, moment) > 0
