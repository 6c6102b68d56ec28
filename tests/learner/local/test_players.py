"""Players: actors of the sequential mode that take turns with training."""

import pytest
from support.learner_double import LearnerDouble
from support.sequential import an_evaluator, collectors
from support.stamps import a_stamp_spec

from farflung.common.data.spec import Evaluation


@pytest.fixture
def double():
    """A learner that wants an evaluation every step."""
    return LearnerDouble(a_stamp_spec(policy="default", evaluation=Evaluation(1, 2)))


def test_local_actor_plays_one_window_a_turn(double):
    """It plays nothing before the snapshot is here, then one window a turn."""
    (actor,) = collectors(1, 3)
    actor.client.ask(0.0)
    actor.turn()
    assert actor.client.outbox.idle
    for now in (0.0, 1.0):
        double.send_to(actor.client, now)
        actor.turn()
        double.receive_from(actor.client, now)
    actor.close()
    assert [parcel.rows for parcel in double.parcels] == [12, 12]
    assert actor.client.work.steps == 24


def test_local_evaluator_plays_when_episodes_are_due(double):
    """A turn without enough steps since the last evaluation does nothing."""
    actor = an_evaluator(2)
    actor.client.ask(0.0)
    for now in (0.0, 1.0, 2.0):
        double.send_to(actor.client, now)
        actor.turn()
        double.receive_from(actor.client, now)
    actor.close()
    assert [(p.rows, len(p.results.returns), p.evaluation) for p in double.parcels] == [
        (0, 2, True)
    ]
