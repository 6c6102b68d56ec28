"""An acting graph from the network is arithmetic on its own inputs and weights, or it is refused
before a session exists.
"""

import contextlib
import random
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from onnx import helper, numpy_helper

from farflung.actor.acting.graph_check import MAX_MODEL_BYTES, check
from farflung.actor.acting.policy import Policy
from farflung.common.data.layout import layout
from farflung.common.data.spec import Graph, Tensor
from farflung.common.data.weights import Version, Weights
from farflung.common.process.errors import Refused


def changed(graph: Graph, change: Callable[[onnx.ModelProto], object]) -> Graph:
    """Return the graph with its model changed by a function."""
    model = onnx.load_from_string(graph.model)
    change(model)
    return structs.replace(graph, model=model.SerializeToString())


def place(model: onnx.ModelProto, key: str, value: str) -> None:
    next(
        entry for entry in model.graph.initializer[0].external_data if entry.key == key
    ).value = value


def outside(tensor: onnx.TensorProto) -> onnx.TensorProto:
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    return tensor


def body() -> onnx.GraphProto:
    return helper.make_graph([helper.make_node("Identity", ["a"], ["b"])], "body", [], [])


def constant(value: np.ndarray) -> onnx.TensorProto:
    return numpy_helper.from_array(value, "constant")


def test_an_ordinary_graph_passes(linear: Graph) -> None:
    """Weights outside in the one block, constants inside, operators of the list."""
    check(linear)


def test_constants_may_stand_in_nodes_and_beside_them(linear: Graph) -> None:
    """Both forms of a constant are known."""

    def add(model: onnx.ModelProto) -> None:
        model.graph.node.append(
            helper.make_node("Constant", [], ["one"], value=constant(np.ones(3, np.float32)))
        )
        model.graph.initializer.append(constant(np.ones((2, 3), np.int64)))

    check(changed(linear, add))


NODES = {
    "Loop": lambda: helper.make_node("Loop", ["n", "go"], ["x"], body=body()),
    "If": lambda: helper.make_node("If", ["go"], ["x"], then_branch=body(), else_branch=body()),
    "Scan": lambda: helper.make_node("Scan", ["x"], ["y"], body=body(), num_scan_inputs=1),
    "RandomNormalLike": lambda: helper.make_node("RandomNormalLike", ["observations"], ["x"]),
    "Multinomial": lambda: helper.make_node("Multinomial", ["observations"], ["x"]),
    "Dropout": lambda: helper.make_node("Dropout", ["observations"], ["x"]),
    "NonZero": lambda: helper.make_node("NonZero", ["observations"], ["x"]),
    "com.microsoft.Relu": lambda: helper.make_node(
        "Relu", ["observations"], ["x"], domain="com.microsoft"
    ),
    "ai.onnx.ml.Scaler": lambda: helper.make_node(
        "Scaler", ["observations"], ["x"], domain="ai.onnx.ml"
    ),
    "PyOp": lambda: helper.make_node("PyOp", ["observations"], ["x"]),
}


@pytest.mark.parametrize("operator", NODES)
def test_an_operator_that_is_not_on_the_list_is_named(linear: Graph, operator: str) -> None:
    """Control flow, chance, other domains and shapes that follow from values do not pass."""
    with pytest.raises(Refused, match=f"operator {operator} is not on the list"):
        check(changed(linear, lambda model: model.graph.node.append(NODES[operator]())))


HOSTILE: dict[str, tuple[Callable[[onnx.ModelProto], object], str]] = {
    "subgraph in an innocent node": (
        lambda m: m.graph.node.append(
            helper.make_node("Relu", ["observations"], ["x"], body=body())
        ),
        "attribute: field 6",
    ),
    "function": (lambda m: m.functions.append(onnx.FunctionProto(name="Relu")), "model: field 25"),
    "function by overload": (
        lambda m: setattr(m.graph.node[0], "overload", "other"),
        "node: field 8",
    ),
    "training": (lambda m: m.training_info.add(), "model: field 20"),
    "sparse weight": (lambda m: m.graph.sparse_initializer.add(), "graph: field 15"),
    "metadata": (lambda m: m.metadata_props.add(key="a", value="b"), "model: field 14"),
    "custom domain": (
        lambda m: m.opset_import.add(domain="custom", version=1),
        "other operators than ONNX's own",
    ),
    "no operators": (lambda m: m.ClearField("opset_import"), "other operators than ONNX's own"),
    "path traversal": (lambda m: place(m, "location", "../../etc/passwd"), "matrix lies elsewhere"),
    "other file": (lambda m: place(m, "location", "weights2"), "matrix lies elsewhere"),
    "other offset": (lambda m: place(m, "offset", "64"), "matrix lies elsewhere"),
    "negative offset": (lambda m: place(m, "offset", "-64"), "matrix lies elsewhere"),
    "longer": (lambda m: place(m, "length", "1000000"), "matrix lies elsewhere"),
    "second location": (
        lambda m: m.graph.initializer[0].external_data.add(key="location", value="/etc/passwd"),
        "matrix lies elsewhere",
    ),
    "weight inside": (
        lambda m: m.graph.initializer[0].CopyFrom(
            numpy_helper.from_array(np.ones((4, 6), np.float32), "weights.matrix")
        ),
        "matrix lies",
    ),
    "weight inside and outside": (
        lambda m: setattr(m.graph.initializer[0], "raw_data", b"1234"),
        "matrix is not that of the spec",
    ),
    "wrong shape": (
        lambda m: m.graph.initializer[0].dims.append(1000),
        "matrix is not that of the spec",
    ),
    "negative shape": (
        lambda m: m.graph.initializer[0].dims.__setitem__(0, -4),
        "initializer: dims is negative",
    ),
    "wrong dtype": (
        lambda m: setattr(m.graph.initializer[0], "data_type", 11),
        "matrix is not that of the spec",
    ),
    "weight missing": (lambda m: m.graph.initializer.pop(0), "does not take weights.matrix"),
    "weight twice": (
        lambda m: m.graph.initializer.append(m.graph.initializer[0]),
        "two of its values have one name",
    ),
    "constant outside": (
        lambda m: m.graph.initializer.append(outside(constant(np.ones(3, np.float32)))),
        "constant constant lies outside",
    ),
    "constant in a node outside": (
        lambda m: m.graph.node.append(
            helper.make_node("Constant", [], ["x"], value=outside(constant(np.ones(3, np.float32))))
        ),
        "t: field 13",
    ),
    "constant for an input": (
        lambda m: m.graph.initializer.append(
            numpy_helper.from_array(np.ones((1, 4), np.float32), "observations")
        ),
        "two of its values have one name",
    ),
    "text constant": (
        lambda m: m.graph.initializer.append(helper.make_tensor("text", 8, [1], [b"a"])),
        "field 6",
    ),
    "constant cut short": (
        lambda m: m.graph.initializer.append(
            onnx.TensorProto(name="short", data_type=1, dims=[1 << 40], raw_data=b"1234")
        ),
        "constant short is not whole",
    ),
    "constant of many dimensions": (
        lambda m: m.graph.initializer.append(
            onnx.TensorProto(name="deep", data_type=2, dims=[1] * 9, raw_data=b"1")
        ),
        "constant deep is not whole",
    ),
    "other input": (
        lambda m: setattr(m.graph.input[0], "name", "other"),
        "inputs are not those of the spec",
    ),
    "further input": (
        lambda m: m.graph.input.append(m.graph.input[0]),
        "inputs are not those of the spec",
    ),
    "input of another shape": (
        lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[1], "dim_value", 5),
        "input observations is not that of the spec",
    ),
    "input of another dtype": (
        lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 11),
        "input observations is not that of the spec",
    ),
    "fixed number of seats": (
        lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", 3),
        "input observations is not that of the spec",
    ),
    "input without dimensions": (
        lambda m: m.graph.input[0].type.tensor_type.shape.ClearField("dim"),
        "input observations is not that of the spec",
    ),
    "input without shape": (
        lambda m: m.graph.input[0].type.tensor_type.ClearField("shape"),
        "tensor_type: shape is missing",
    ),
    "sequence input": (
        lambda m: m.graph.input[0].type.sequence_type.elem_type.tensor_type.SetInParent(),
        "type: field 4",
    ),
    "output missing": (lambda m: m.graph.ClearField("output"), "outputs are not those of the spec"),
    "many nodes": (
        lambda m: m.graph.node.extend([helper.make_node("Relu", ["observations"], ["x"])] * 10_001),
        "more than 10000 fields",
    ),
    "no graph": (lambda m: m.ClearField("graph"), "model: graph is missing"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_model_is_refused(linear: Graph, name: str) -> None:
    """A model that differs from the spec is refused under a reason."""
    change, detail = HOSTILE[name]
    with pytest.raises(Refused, match=detail) as refusal:
        check(changed(linear, change))
    assert refusal.value.reason == "graph"


@pytest.mark.parametrize(
    ("graph", "detail"),
    [
        (Graph(bytes(MAX_MODEL_BYTES + 1), (), (), ()), "1048577 bytes"),
        (Graph(b"", (Tensor("x", "object", ()),), (), ()), "x is object"),
        (Graph(b"", (Tensor("x", "float32", (-1,)),), (), ()), "x has shape"),
        (Graph(b"", (), (Tensor("x", "float32", (1,) * 9),), ()), "x has shape"),
        (Graph(b"", (), (), (Tensor("x", "float32", (1 << 40,)),)), "weights are too large"),
        (Graph(b"", (), (), ()), "other operators"),
    ],
)
def test_a_hostile_description_is_refused(graph: Graph, detail: str) -> None:
    """Sizes, dtypes and shapes are checked before the model is looked at."""
    with pytest.raises(Refused, match=detail):
        check(graph)


def test_two_graphs_in_one_model_are_refused(linear: Graph) -> None:
    """Other readers merge them, so that what runs would not be what was checked."""
    twice = linear.model + linear.model
    with pytest.raises(Refused, match="is there twice"):
        check(structs.replace(linear, model=twice))


@pytest.mark.parametrize(
    ("model", "detail"),
    [
        (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "more than 64 bits"),
        (b"\x08" + b"\x80" * 20, "more than 64 bits"),
        (b"\x3b", "field 7"),
        (b"\x3a\x7f", "cut short"),
        (b"\x3d\x00\x00\x00\x00", "field 7"),
        (b"\x39\x00\x00\x00\x00\x00\x00\x00\x00", "field 7"),
        (b"\x42\x03\x0a\x01\xff", "opset_import: domain is not text"),
    ],
)
def test_odd_protocol_buffers_are_refused(model: bytes, detail: str) -> None:
    """Long numbers, groups, short blocks, wrong kinds of value, text that is none."""
    with pytest.raises(Refused, match=detail):
        check(Graph(model, (), (), ()))


def test_every_truncation_is_refused(linear: Graph) -> None:
    """A model that was cut anywhere is never taken."""
    for length in range(len(linear.model)):
        with pytest.raises(Refused):
            check(structs.replace(linear, model=linear.model[:length]))


def test_changed_bytes_end_in_a_refusal_at_worst(linear: Graph) -> None:
    """After any one byte changed, the model is refused by the check or by onnxruntime, or it works:
    nothing else happens.
    """
    rng = random.Random(0)
    weights = Weights(
        "run",
        "policy",
        Version(1, 1),
        0,
        0,
        linear.weights,
        bytes(layout(w.size for w in linear.weights)[1]),
    )
    built = 0
    for _ in range(300):
        model = bytearray(linear.model)
        model[rng.randrange(len(model))] = rng.randrange(256)
        with contextlib.suppress(Refused):
            Policy(structs.replace(linear, model=bytes(model))).load(weights)
            built += 1
    assert 0 < built < 100


@given(st.binary(max_size=300))
def test_random_bytes_are_refused(model: bytes) -> None:
    """Nothing but a refusal comes of noise."""
    with pytest.raises(Refused):
        check(Graph(model, (Tensor("observations", "float32", (4,)),), (), ()))
