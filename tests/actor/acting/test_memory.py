"""Memory of seats: the recurrent state and the place in the episode."""

import numpy as np
import pytest
from support.makers import a_spec

from farflung.actor.acting.memory import SeatMemory
from farflung.actor.worlds.world import Due
from farflung.common.data.spec import Graph, Tensor
from farflung.common.data.states import EPISODE, state_columns

GRAPH = Graph(
    b"model",
    (Tensor("observations", "float32", (2,)), Tensor("state.sum", "float32", (3,))),
    (Tensor("q", "float32", (2,)), Tensor("next_state.sum", "float32", (3,))),
    (),
)


@pytest.fixture
def spec():
    """A policy with a state of three numbers; its episodes are numbered."""
    return a_spec(graph=GRAPH, extras=(*state_columns(GRAPH), EPISODE))


def answers(rows, value):
    return [np.zeros((rows, 2), np.float32), np.full((rows, 3), value, np.float32)]


def test_state_is_zero_at_the_beginning_and_the_last_output_after_it(spec):
    """A seat that is not due keeps its own; the arrays of all seats stay the same."""
    memory = SeatMemory(spec, 3)
    everyone = memory.state(None)["state.sum"]
    assert not everyone.any()
    memory.keep(answers(3, 1.0), None)
    memory.keep(answers(2, 2.0), np.array([2, 0]))
    assert everyone[:, 0].tolist() == [2, 1, 2]
    memory.forget([2])
    assert everyone[:, 0].tolist() == [2, 1, 0]
    due = Due({"observations": np.zeros((2, 2), np.float32)}, np.array([1, 2]))
    assert memory.inputs(due)["state.sum"][:, 0].tolist() == [1, 0]
    assert memory.inputs(Due(due.columns))["state.sum"] is everyone


def test_an_episode_has_a_number_and_its_steps_are_counted(spec):
    """Numbers differ from seat to seat and episode to episode, and repeat with the seed."""
    memory, again = (SeatMemory(spec, 2, place=(0, 0)) for _ in range(2))
    other = SeatMemory(spec, 2, place=(1, 0))
    first = memory.columns(None)["episode"].copy()
    assert (first == again.columns(None)["episode"]).all()
    memory.keep(answers(2, 1.0), None)
    memory.keep(answers(1, 1.0), np.array([1]))
    memory.forget([0])
    second = memory.columns(np.array([0, 1]))["episode"]
    assert second[:, 1].tolist() == [0, 2]
    assert second[1, 0] == first[1, 0]
    numbers = {*first[:, 0].tolist(), int(second[0, 0]), *other.columns(None)["episode"][:, 0]}
    assert len(numbers) == 5


def test_a_policy_without_a_state_has_nothing_to_keep():
    """It has no columns from here, and its inputs are what is due."""
    memory = SeatMemory(a_spec(), 2, place=(0, 0))
    assert not memory.records
    assert memory.columns(None) == {}
    columns = {"observations": np.zeros((2, 2), np.float32)}
    memory.keep([np.zeros((2, 2))], None)
    assert memory.inputs(Due(columns))["observations"] is columns["observations"]
