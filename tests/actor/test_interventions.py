"""Interventions: the action that was really taken is recorded, and the flag of each step."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.learner_double import LearnerDouble
from support.makers import some_weights
from support.stamps import a_stamp_spec

from farflung.actor.session import ActorSession
from farflung.actor.worlds.external import ExternalWorld
from farflung.common.data.spec import ACTIONS, INTERVENED, Space
from farflung.common.heads.head import LOG_PROBABILITY
from farflung.common.process.errors import ConfigurationError

Serve = Callable[..., Any]


@pytest.fixture
def joined(serve: Serve) -> Iterator[Callable[..., tuple[ActorSession, Any]]]:
    """Return a maker of a session and its learner, which prefers action 2."""
    sessions = []

    def join(*extras: Any, **changes: Any) -> tuple[ActorSession, Any]:
        spec = a_stamp_spec(extras=extras, **changes)
        learner = LearnerDouble(spec, versions=0)
        learner.publisher.publish(some_weights(spec, 1, best=2))
        served = serve(learner)
        sessions.append(ActorSession(str(served.address), policy="p", join_within_s=20.0))
        return sessions[-1], served

    yield join
    for session in sessions:
        session.close(0.0)


def step(session: ActorSession, number: int, **taken: Any) -> int:
    """Act and record a step of one long episode; return the policy's action."""
    action: int = session.act([0, 0, number])
    session.record(1.0, False, False, [0, 0, number + 1], **taken)
    return action


def columns(served: Any, count: int, name: str) -> list[Any]:
    """Return a column of so many parcels."""
    return np.concatenate([parcel.columns[name] for parcel in served.take(count)]).tolist()


def test_the_action_that_was_taken_is_recorded_with_its_flag(joined: Any) -> None:
    """By default a replaced action is flagged; a person may also confirm the policy's own one."""
    session, served = joined(INTERVENED)
    taken = [{}, {"action": 3}, {"action": 2}, {"action": 1, "intervened": True}]
    taken += [{"action": 2, "intervened": True}, {"action": 0, "intervened": False}]
    taken += [{"intervened": True}, {"action": np.int32(2)}]
    assert [step(session, at, **each) for at, each in enumerate(taken)] == [2] * 8
    assert session.close(20.0)
    first, second = served.take(2)
    assert [*first.columns[ACTIONS], *second.columns[ACTIONS]] == [2, 3, 2, 1, 2, 0, 2, 2]
    flags = [*first.columns["intervened"], *second.columns["intervened"]]
    assert flags == [False, True, False, True, True, False, True, False]


def test_flags_do_not_stay_for_the_next_window(joined: Any) -> None:
    """A window's rows are used again for the next one."""
    session, served = joined(INTERVENED)
    for at in range(8):
        step(session, at, intervened=at < 4)
    assert session.close(20.0)
    assert columns(served, 2, "intervened") == [True] * 4 + [False] * 4


def test_flags_stay_with_their_steps_where_an_action_is_lost(joined: Any) -> None:
    """Seats with cursors of their own are flagged at the cursor."""
    session, served = joined(INTERVENED)
    step(session, 0, action=1)
    session.act([0, 0, 1])  # no outcome: the step is left out
    for at in range(2, 5):
        step(session, at, action=at % 2)
    assert session.close(20.0)
    parcels = served.take(2)
    actions = [int(action) for parcel in parcels for action in parcel.columns[ACTIONS]]
    assert actions == [1, 0, 1, 0]
    assert all(parcel.columns["intervened"].all() for parcel in parcels)


def test_actions_are_kept_without_a_column_of_flags(joined: Any) -> None:
    """The learner asked for no flags: the action is that which was taken, all the same."""
    session, served = joined()
    for at in range(4):
        step(session, at, action=1)
    assert session.close(20.0)
    assert columns(served, 1, ACTIONS) == [1, 1, 1, 1]


def test_a_flag_that_would_be_lost_is_refused(joined: Any) -> None:
    """The sentence names the learner's option; the outcome can be recorded without the flag."""
    session, _ = joined()
    session.act([0, 0, 0])
    with pytest.raises(ConfigurationError, match="start it with --interventions"):
        session.record(1.0, False, False, [0, 0, 1], intervened=True)
    session.record(1.0, False, False, [0, 0, 1])


def test_an_action_without_an_act_before_it_is_refused(joined: Any) -> None:
    """As any other outcome is."""
    session, _ = joined(INTERVENED)
    with pytest.raises(ValueError, match="call act"):
        session.record(1.0, False, False, [0, 0, 1], action=1)


def test_a_probability_of_another_action_is_refused_without_flags(joined: Any) -> None:
    """The head's columns are of the policy's own action."""
    session, _ = joined(LOG_PROBABILITY)
    session.act([0, 0, 0])
    with pytest.raises(ConfigurationError, match="records log_probability of the policy's own"):
        session.record(1.0, False, False, [0, 0, 1], action=1)
    session.record(1.0, False, False, [0, 0, 1], action=2)


def test_a_probability_of_another_action_travels_with_its_flag(joined: Any) -> None:
    """So a loss can tell the steps of which it does not hold."""
    session, served = joined(LOG_PROBABILITY, INTERVENED)
    step(session, 0, action=1)
    assert session.close(20.0)
    assert columns(served, 1, "intervened") == [True]


@pytest.mark.parametrize("action", [4, -1, 1.5, [1], "left", float("nan")])
def test_an_action_outside_the_space_is_refused(joined: Any, action: Any) -> None:
    """Nothing is recorded by it, so that the right one can follow."""
    session, served = joined(INTERVENED)
    session.act([0, 0, 0])
    with pytest.raises(ConfigurationError, match="was taken, and the learner's toys/Stamp-v0"):
        session.record(1.0, False, False, [0, 0, 1], action=action)
    session.record(1.0, False, False, [0, 0, 1], action=3)
    assert session.close(20.0)
    assert columns(served, 1, ACTIONS) == [3]


class TestContinuous:
    """Arrays are kept as arrays, within the bounds of the space."""

    @pytest.fixture
    def world(self) -> Any:
        """A world of two continuous actions."""
        box = Space("box", "float32", (2,), low=(-1.0, -1.0), high=(1.0, float("inf")))
        return ExternalWorld(a_stamp_spec(action=box))

    def test_numbers_within_the_space_are_rounded_to_its_dtype(self, world: Any) -> None:
        """As the column has them."""
        taken = world.taken([0.1, 7])
        assert taken.dtype == np.float32
        assert taken.tolist() == [np.float32(0.1), 7.0]

    @pytest.mark.parametrize("action", [[-1.1, 0], [0, float("inf")], [float("nan"), 0], 0.0])
    def test_others_are_refused(self, world: Any, action: Any) -> None:
        """Infinity is no action, even in a space without an edge."""
        with pytest.raises(ConfigurationError, match="was taken"):
            world.taken(action)
