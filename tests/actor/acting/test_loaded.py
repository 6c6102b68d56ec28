"""A policy at work without a learner: single observations and batches, dictionaries, frames."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from farflung.actor.acting.loaded import LoadedPolicy
from farflung.common.data.spec import Exploration, Graph, Space, Spec, Tensor, World, column_name
from farflung.common.process.errors import Refused, UsageError

PLAIN = {"": Space("box", "float32", (3,))}
PARTS = {
    "room": Space("discrete", "int64", (), (3,)),
    "dials": Space("multidiscrete", "int32", (2,), (4, 2)),
    "picture": Space("box", "uint8", (2, 2)),
}


class Echo:
    """A graph that remembers its inputs; the value of an action is the n-th number it sees."""

    def __init__(self, name: str = "observations") -> None:
        self.inputs: Mapping[str, np.ndarray] = {}
        self._name = name

    def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        self.inputs = {name: array.copy() for name, array in inputs.items()}
        rows = inputs[self._name]
        return [rows.reshape(len(rows), -1)[:, -3:].astype(np.float32)]


def a_policy(
    observation: dict[str, Space] | None = None, graph: Echo | None = None, **changes: Any
) -> LoadedPolicy:
    """Return a policy with three actions."""
    observation = observation or PLAIN
    stack, starts = changes.pop("stack", 1), changes.pop("starts", {})
    spec = Spec(
        run="one",
        policy="default",
        mode="async",
        world=World("Toy-v0"),
        observation=observation,
        action=Space("discrete", "int64", (), (3,)),
        head=changes.pop("head", "q"),
        horizon=8,
        stack=stack,
        graph=Graph(b"", tuple(map(as_input, observation)), (Tensor("q", "float32", (3,)),), ()),
        **changes,
    )
    return LoadedPolicy(spec, graph or Echo(column_name(next(iter(observation)))), starts, 100, "1")


def as_input(key: str) -> Tensor:
    """Return a graph's input; nothing reads its shape here."""
    return Tensor(column_name(key), "float32", ())


def test_one_observation_has_one_action_and_a_batch_as_many() -> None:
    """The highest number is the best action; lists and other floats are taken."""
    policy = a_policy()
    action = policy.act(np.array([0.0, 5.0, 1.0]))
    assert (int(action), np.shape(action), action.dtype) == (1, (), np.int64)
    assert policy.act([9, 0, 0]) == 0
    assert policy.act([[9, 0, 0], [0, 0, 9]]).tolist() == [0, 2]


def test_actions_are_copies() -> None:
    """They stay as they are after the next call, although its outputs share memory."""
    policy = a_policy()
    first = policy.act([[9.0, 0, 0], [0, 0, 9.0]])
    policy.act([[0.0, 9, 0], [0, 9, 0.0]])
    assert first.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (np.zeros(4), r"float64 \(4,\) was shown, and the policy takes float32 \(3,\)"),
        (np.zeros((2, 2, 3)), r"\(2, 2, 3\) was shown"),
        (np.float32(1.0), r"float32 \(\) was shown"),
        (np.zeros(3, np.complex64), "complex64"),
        ("left", "<U4"),
        (None, "object"),
        ([[1.0], [2.0, 3.0]], "no such part"),
    ],
)
def test_observation_that_does_not_fit_is_named_with_expected_and_got(
    shown: Any, said: str
) -> None:
    """In one sentence, and never broadcast."""
    with pytest.raises(UsageError, match=said):
        a_policy().act(shown)


def test_parts_of_a_dictionary_are_read_by_key_and_counted_from_0() -> None:
    """A space from 5 to 7 and actions from -1 on are the environment's own numbers."""
    graph = Echo("observations.picture")
    starts = {"observations.room": (5,), "observations.dials": (1, 2), "actions": (-1,)}
    policy = a_policy(PARTS, graph, starts=starts)
    one = {"room": 6, "dials": [1, 3], "picture": np.array([[0, 9], [0, 0]], np.uint8)}
    assert policy.act(one) == -1  # the best of the last three numbers is the first
    found = {name: array.tolist() for name, array in graph.inputs.items()}
    assert found == {
        "observations.room": [1],
        "observations.dials": [[0, 1]],
        "observations.picture": [[[0, 9], [0, 0]]],
    }
    both = {name: np.array([part, part]) for name, part in one.items()}
    assert policy.act(both).tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"room": 8}, "its space does not hold"),
        ({"room": 4}, "its space does not hold"),
        ({"dials": [0, 2]}, "does not hold"),
        ({"dials": [0]}, r"observations.dials: int64 \(1,\)"),
        ({"picture": np.zeros((2, 2))}, "float64"),
        ({"room": [5, 6]}, r"different batches: observations.room \(2,\), observations.dials"),
        ({"room": None}, "observations.room"),
    ],
)
def test_part_that_does_not_fit_is_named(changes: dict[str, Any], said: str) -> None:
    """A number outside of its space, a wrong shape, and parts of different batches."""
    policy = a_policy(PARTS, Echo("observations.picture"), starts={"observations.room": (5,)})
    one = {"room": 6, "dials": [1, 1], "picture": np.zeros((2, 2), np.uint8)}
    policy.act(one)
    with pytest.raises(UsageError, match=said):
        policy.act(one | changes)


def test_absent_part_is_named_with_those_that_there_are() -> None:
    """An array instead of a dictionary, too."""
    for shown in ({"room": 6}, np.zeros(3)):
        with pytest.raises(UsageError, match="which has dials, picture, room"):
            a_policy(PARTS).act(shown)


def test_frames_are_remembered_until_an_episode_ends() -> None:
    """An episode begins with its first frame repeated; `reset` begins another."""
    graph = Echo()
    policy = a_policy(graph=graph, stack=3)
    for value in (1.0, 2.0):
        policy.act([value] * 3)
    assert graph.inputs["observations"][:, :, 0].tolist() == [[1, 1, 2]]
    policy.reset()
    policy.act([7.0] * 3)
    assert graph.inputs["observations"][:, :, 0].tolist() == [[7, 7, 7]]


def test_rows_of_a_batch_have_frames_of_their_own() -> None:
    """One row begins another episode while the other goes on."""
    graph = Echo()
    policy = a_policy(graph=graph, stack=2)
    policy.act([[1.0] * 3, [5.0] * 3])
    policy.reset([1])
    policy.act([[2.0] * 3, [6.0] * 3])
    assert graph.inputs["observations"][:, :, 0].tolist() == [[1, 2], [6, 6]]
    with pytest.raises(UsageError, match="call reset"):
        policy.act([2.0] * 3)
    policy.reset()
    policy.act([2.0] * 3)


def test_policy_as_trained_explores_by_the_steps_of_its_checkpoint() -> None:
    """With epsilon 0.5 a third of that half takes the best action by chance."""
    policy = a_policy(exploration=Exploration(1.0, 0.5, 100))
    actions = policy.act(np.tile([9.0, 0, 0], (4000, 1)), as_trained=True)
    share = (actions == 0).mean()
    assert abs(share - (0.5 + 0.5 / 3)) < 0.03
    assert (policy.act(np.tile([9.0, 0, 0], (4000, 1))) == 0).all()
    one = [int(policy.act([9.0, 0, 0], as_trained=True)) for _ in range(300)]
    assert set(one) == {0, 1, 2}


def test_unknown_head_is_refused() -> None:
    """The package that registers it has to be imported before."""
    with pytest.raises(Refused, match="import the package"):
        a_policy(head="mine")


class Sum:
    """A graph with the sum of all that it saw as its state, and as the values of the actions."""

    def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        total = inputs["state.total"] + inputs["observations"]
        return [total, total.copy()]


@pytest.fixture
def summing() -> LoadedPolicy:
    """Return a policy that takes the action with the highest sum so far in its episode."""
    total = Tensor("state.total", "float32", (3,))
    graph = Graph(
        b"",
        (as_input(""), total),
        (Tensor("q", "float32", (3,)), Tensor("next_state.total", "float32", (3,))),
        (),
    )
    spec = replace(a_policy().spec, graph=graph)
    return LoadedPolicy(spec, Sum(), {}, 100, "1")


def test_a_recurrent_policy_keeps_its_state_until_a_reset(summing: LoadedPolicy) -> None:
    """For each row of a batch; another number of rows is refused until then."""
    assert summing.state == {}
    assert summing.act([0.0, 2.0, 0.0]) == 1
    assert summing.act([1.0, 0.0, 0.0]) == 1
    assert summing.state["total"].tolist() == [[1, 2, 0]]
    with pytest.raises(UsageError, match="frames or a state of each row"):
        summing.act(np.zeros((2, 3)))
    summing.reset()
    assert summing.act(np.eye(3)[:2]).tolist() == [0, 1]
    summing.reset([0])
    assert summing.act(np.array([[0.0, 0.5, 0.0]] * 2)).tolist() == [1, 1]
    assert summing.state["total"].tolist() == [[0, 0.5, 0], [0, 1.5, 0]]


def test_a_state_can_be_given_and_is_a_copy(summing: LoadedPolicy) -> None:
    """Several episodes take turns with one policy; a state of another form is refused."""
    summing.act([0.0, 2.0, 0.0])
    one = summing.state
    summing.reset()
    summing.act([0.0, 0.0, 2.0])
    other, summing.state = summing.state, one
    assert summing.act([1.0, 0.0, 0.0]) == 1
    assert one["total"].tolist() == [[0, 2, 0]]
    summing.state = other
    assert summing.act([1.0, 0.0, 0.0]) == 2
    summing.state = {}
    assert summing.act([1.0, 0.0, 0.0]) == 0
    for wrong in ({"hidden": np.zeros((1, 3))}, {"total": np.zeros((1, 2))}, {"total": 1.0}):
        with pytest.raises(UsageError, match="no state of the policy, which has total"):
            summing.state = wrong
