"""A policy answers for all seats in one call, with the weights that it was given last."""

import dataclasses
import resource

import numpy as np
import onnx
import pytest
from msgspec import structs
from support.stamps import heavy_graph

from farflung.actor.acting.policy import Policy
from farflung.common.data.spec import Graph, Tensor
from farflung.common.data.weights import Version, Weights, pack
from farflung.common.process.errors import Refused


def weights(graph: Graph, value: float) -> Weights:
    """A matrix full of one value, and a bias that counts up."""
    arrays = {"matrix": np.full((4, 6), value, np.float32), "bias": np.arange(6, dtype=np.float32)}
    return Weights("run", "policy", Version(1, 1), 0, 0, graph.weights, pack(graph.weights, arrays))


def version(graph: Graph, number: int) -> Weights:
    """Version `number`: its matrix is full of that number."""
    return dataclasses.replace(weights(graph, float(number)), version=Version(1, number))


@pytest.fixture
def policy(linear: Graph) -> Policy:
    policy = Policy(linear)
    policy.load(weights(linear, 1.0))
    return policy


def test_all_seats_are_answered_in_one_call(policy: Policy) -> None:
    """Three seats, six outputs: the sum of the observation plus the output's number."""
    observations = np.array([[1, 2, 3, 4], [0, 0, 0, 0], [1, -1, 1, -1]], np.float32)
    (q,) = policy.answer({"observations": observations})
    assert q.dtype == np.float32
    np.testing.assert_array_equal(q, np.array([[10], [0], [0]]) + np.arange(6))


@pytest.mark.parametrize("seats", [1, 3, 64])
def test_arrays_that_come_again_are_read_again(linear: Graph, seats: int) -> None:
    """A player fills the same arrays at each step. The answers are those of fresh arrays."""
    rng = np.random.default_rng(1)
    again, fresh = Policy(linear), Policy(linear)
    kept = np.zeros((seats, 4), np.float32)
    inputs = {"observations": kept}
    for number in range(8):
        if number % 4 == 0:
            again.load(weights(linear, number + 0.1))
            fresh.load(weights(linear, number + 0.1))
        kept[:] = rng.standard_normal(kept.shape, np.float32)
        (expected,) = fresh.answer({"observations": kept.copy()})
        np.testing.assert_array_equal(again.answer(inputs)[0], expected)


def test_prepared_weights_are_used_once_they_are_loaded(linear: Graph) -> None:
    """Prepared aside, they change no answer; loaded, they answer like those that were not."""
    policy, inputs = Policy(linear), {"observations": np.ones((2, 4), np.float32)}
    policy.prepare(version(linear, 1))  # before the first answer, so for one seat
    policy.load(version(linear, 1))
    for number in (2, 3):
        before = [policy.answer(inputs)[0].copy() for _ in range(3)]
        policy.prepare(version(linear, number))
        after = [policy.answer(inputs)[0].copy() for _ in range(3)]
        np.testing.assert_array_equal(before, after)
        policy.load(version(linear, number))
        for _ in range(3):
            np.testing.assert_array_equal(
                policy.answer(inputs)[0], [4.0 * number + np.arange(6)] * 2
            )


def test_version_is_taken_although_a_newer_one_was_prepared_meanwhile(
    linear: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may prepare a version between the choice of the one before and its load."""
    policy, inputs = Policy(linear), {"observations": np.ones((1, 4), np.float32)}
    for number in (1, 2, 3):
        policy.prepare(version(linear, number))
    monkeypatch.setattr("farflung.actor.acting.policy.session", lambda *_: 1 / 0)  # none is built
    for number in (2, 3):
        policy.load(version(linear, number))
        np.testing.assert_array_equal(policy.answer(inputs)[0][0], 4.0 * number + np.arange(6))
    with pytest.raises(ZeroDivisionError):
        policy.load(version(linear, 1))


def test_weights_that_were_not_prepared_are_loaded_all_the_same(linear: Graph) -> None:
    """An older preparation does not count."""
    policy, inputs = Policy(linear), {"observations": np.ones((1, 4), np.float32)}
    policy.prepare(version(linear, 1))
    policy.load(version(linear, 2))
    np.testing.assert_array_equal(policy.answer(inputs)[0][0], 8.0 + np.arange(6))


def test_another_array_in_the_same_mapping_is_read(policy: Policy) -> None:
    """An array counts as the same one only if it is."""
    inputs = {"observations": np.ones((1, 4), np.float32)}
    policy.answer(inputs)
    policy.answer(inputs)
    inputs["observations"] = np.full((2, 4), 2, np.float32)
    np.testing.assert_array_equal(policy.answer(inputs)[0], [8 + np.arange(6)] * 2)


def test_arrays_with_gaps_are_read_again(policy: Policy) -> None:
    """Every other row of an array: onnxruntime copies these."""
    rows = np.ones((4, 4), np.float32)
    inputs = {"observations": rows[::2]}
    for value in (1, 2, 3):
        rows[:] = value
        np.testing.assert_array_equal(policy.answer(inputs)[0], [4 * value + np.arange(6)] * 2)


def test_new_weights_have_their_effect(policy: Policy, linear: Graph) -> None:
    """After a load the answers are those of the new weights."""
    policy.load(weights(linear, -2.0))
    (q,) = policy.answer({"observations": np.ones((1, 4), np.float32)})
    np.testing.assert_array_equal(q, [-8 + np.arange(6)])


def test_a_session_outlives_its_block(policy: Policy, linear: Graph) -> None:
    """A later change of the block does not change the session."""
    given = weights(linear, 1.0)
    policy.load(given)
    assert isinstance(given.block, bytearray)
    given.block[:] = bytes(len(given.block))
    (q,) = policy.answer({"observations": np.ones((1, 4), np.float32)})
    np.testing.assert_array_equal(q, [4 + np.arange(6)])


def test_the_same_call_gives_the_same_bits(linear: Graph) -> None:
    """The bits depend neither on the session nor on the place of inputs in memory."""
    rng = np.random.default_rng(0)
    arrays = {
        "matrix": rng.standard_normal((4, 6), np.float32),
        "bias": rng.standard_normal(6, np.float32),
    }
    given = Weights(
        "run", "policy", Version(1, 1), 0, 0, linear.weights, pack(linear.weights, arrays)
    )
    observations = rng.standard_normal((16, 4), np.float32)
    answers = []
    for shift in range(4):
        policy = Policy(linear)
        policy.load(given)
        buffer = np.zeros(64 + shift, np.float32)[shift:].reshape(16, 4)
        policy.answer({"observations": buffer})
        buffer[...] = observations
        answers.append(policy.answer({"observations": buffer})[0].tobytes())
    assert len(set(answers)) == 1


def test_a_policy_without_weights_does_not_answer(linear: Graph) -> None:
    """There is no guess to act on before the first load."""
    with pytest.raises(ValueError, match="first load"):
        Policy(linear).answer({"observations": np.ones((1, 4), np.float32)})


@pytest.mark.parametrize(
    "change", [{"block": b"1234"}, {"tensors": (Tensor("other", "float32", (4, 6)),)}]
)
def test_weights_of_another_graph_are_refused(
    policy: Policy, linear: Graph, change: dict[str, object]
) -> None:
    """Names, shapes and the length of the block are the graph's; what was loaded before stays."""
    with pytest.raises(Refused, match="not those of the acting graph"):
        policy.load(dataclasses.replace(weights(linear, 2.0), **change))
    (q,) = policy.answer({"observations": np.ones((1, 4), np.float32)})
    assert q[0, 0] == 4


def test_a_hostile_graph_is_refused_before_a_session_exists(linear: Graph) -> None:
    """The check comes with the policy."""
    with pytest.raises(Refused, match="cut short"):
        Policy(structs.replace(linear, model=linear.model[:-1]))


def test_what_onnxruntime_does_not_take_is_refused(linear: Graph) -> None:
    """A graph can pass the check and still be nonsense: that is a refusal too."""
    model = onnx.load_from_string(linear.model)
    model.graph.node[0].input[0] = "nowhere"
    policy = Policy(structs.replace(linear, model=model.SerializeToString()))
    with pytest.raises(Refused, match="onnxruntime does not take it"):
        policy.load(weights(linear, 1.0))


def test_a_graph_that_computes_more_than_memory_holds_is_refused(linear: Graph) -> None:
    """Shapes that a check cannot follow: the arena of all sessions has a bound."""
    policy = Policy(heavy_graph(linear, 1 << 16, products=0))
    policy.load(weights(linear, 1.0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Refused, match="it cannot answer: it needs more than 4 GiB of memory"):
        policy.answer({"observations": np.ones((1, 4), np.float32)})
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB


def test_what_cannot_be_answered_is_refused(policy: Policy) -> None:
    """onnxruntime's errors come out as ours."""
    with pytest.raises(Refused, match="cannot answer"):
        policy.answer({"observations": np.ones((1, 5), np.float32)})


def test_a_graph_that_answers_in_another_shape_is_refused() -> None:
    """Its output says `[N, 6]` of itself, and it returns a column: rows would be read beside it."""
    nodes = [onnx.helper.make_node("ReduceMax", ["observations", "axes"], ["q"], keepdims=1)]
    rows = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", width])
        for name, width in (("observations", 4), ("q", 6))
    ]
    axes = onnx.numpy_helper.from_array(np.array([1], np.int64), "axes")
    made = onnx.helper.make_graph(nodes, "g", rows[:1], rows[1:], [axes])
    opset = [onnx.helper.make_opsetid("", 20)]
    model = onnx.helper.make_model(made, opset_imports=opset, ir_version=10).SerializeToString()
    taken, answered = Tensor("observations", "float32", (4,)), Tensor("q", "float32", (6,))
    lying = Graph(model, (taken,), (answered,), ())
    policy = Policy(lying)
    policy.load(version(lying, 1))
    with pytest.raises(Refused, match=r"it cannot answer: q is \(2, 1\) for 2 seats"):
        policy.answer({"observations": np.ones((2, 4), np.float32)})
