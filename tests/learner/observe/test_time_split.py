"""The time of both sides, measured and judged, with statuses that a test makes."""

import pytest
from support.learners import a_config

from farflung.learner.core.pacing import Cause, Pacing
from farflung.learner.observe.endpoint_status import EndpointStatus
from farflung.learner.observe.status import ActorState, ActorStatus
from farflung.learner.observe.time_split import TimeSplit, mean_time

PLAYS = ActorStatus("a", ActorState.RUNNING, time={"room": 0.2, "environment": 0.8})
WAITS = ActorStatus("b", ActorState.WAITING, time={"room": 0.6, "environment": 0.4})
ROOM = EndpointStatus(actors=(PLAYS, WAITS))


def a_split(rollout=0, **changes):
    """Return the split of a run with a training thread that does updates only."""
    pacing = Pacing(1.0, 8, 16, 8, rollout=rollout)
    made = TimeSplit(a_config(mode="async", **changes), pacing)
    made.seconds = lambda: {"update": made.now, "experience": 0.0}
    return made


def looked(split, view=ROOM, cause=Cause.UPDATES, seconds=(0.0, 1.0)):
    """Look at these seconds; return the fields of the last look."""
    for now in seconds:
        split.now = now
        found = split.look(view, cause, 50.0, now)
    return found


def test_only_actors_that_collect_are_in_the_mean():
    """0.2 and 0.6 are 0.4. Those that evaluate, left or measure nothing do not count."""
    others = (
        ActorStatus("c", ActorState.EVALUATING, time={"room": 1.0}),
        ActorStatus("d", ActorState.LEFT, time={"room": 1.0}),
        ActorStatus("e", ActorState.RUNNING),
    )
    found = mean_time((PLAYS, WAITS, *others))
    assert found == pytest.approx({"room": 0.4, "environment": 0.6})
    assert mean_time(others) == {}


def test_fields_of_a_status():
    """The journal wrote for a quarter of a second, and the network thread worked for a half."""
    split = a_split()
    looked(split, seconds=(0.0,))
    later = EndpointStatus(actors=(PLAYS, WAITS), disk_s=0.25, network_s=0.5)
    found = looked(split, later, seconds=(1.0,))
    assert found["training_time"] == {"update": 1.0, "experience": 0.0}
    assert found["actors_time"] == pytest.approx({"room": 0.4, "environment": 0.6})
    assert (found["disk_busy"], found["network_busy"]) == (0.25, 0.5)
    assert found["verdict"].bound == "learner-bound"
    assert "--replay-ratio" in found["verdict"].sentence


def test_setting_that_is_named_is_that_of_the_run():
    """Rollouts have epochs, a setting of their algorithm."""
    split = a_split(rollout=16, algorithm="ppo")
    assert "for the epochs of rollouts" in looked(split)["verdict"].sentence
    assert "lower --ppo.epochs" in split.mostly


@pytest.mark.parametrize("cause", [Cause.WARMUP, Cause.PAUSE, Cause.ACTORS, Cause.EVALUATION])
def test_no_verdict_while_a_side_waits_for_something_else(cause):
    """Unless an environment hangs."""
    split = a_split()
    assert looked(split, cause=cause)["verdict"].bound == "unknown"
    hangs = ActorStatus("a", ActorState.RUNNING, hangs_s=6.0)
    found = looked(split, EndpointStatus(actors=(hangs,)), cause)
    assert found["verdict"].bound == "hangs"


def test_actor_that_has_left_hangs_no_more():
    """Its last report said so."""
    gone = ActorStatus("a", ActorState.LEFT, hangs_s=60.0)
    assert looked(a_split(), EndpointStatus(actors=(gone,)))["verdict"].bound == "unknown"


def test_end_of_a_run_has_the_verdict_that_came_most_often():
    """Two of three looks; its newest sentence counts. A sequential run has none."""
    split = a_split()
    assert split.mostly == ""
    looked(split, seconds=(0.0, 1.0, 2.0))
    hangs = ActorStatus("a", ActorState.RUNNING, hangs_s=6.0)
    looked(split, EndpointStatus(actors=(hangs,)), seconds=(3.0,))
    assert split.mostly.startswith("learner-bound: ")
    alone = TimeSplit(a_config(), Pacing(1.0, 8, 16, 8))
    assert (alone.look(ROOM, Cause.UPDATES, None, 1.0), alone.mostly) == ({}, "")
