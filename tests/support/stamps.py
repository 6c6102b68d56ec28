"""Specs, parcels and a linear policy for the environment that stamps its observations."""

from typing import Any

import numpy as np
import onnx
from msgspec import structs
from onnx import TensorProto, helper, numpy_helper

from farflung.common.data.layout import layout
from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import (
    ACTIONS,
    OBSERVATIONS,
    REWARDS,
    Evaluation,
    Exploration,
    Graph,
    Space,
    Spec,
    Tensor,
    World,
)
from farflung.common.data.weights import Version
from support.makers import a_spec


def a_stamp_spec(stack: int = 1, **changes: Any) -> Spec:
    """Return a policy of the stamping environment: three numbers to see, four actions."""
    defaults = {
        "run": "r",
        "policy": "p",
        "world": World("toys/Stamp-v0"),
        "observation": {"": Space("box", "float32", (3,))},
        "action": Space("discrete", "int64", (), (4,)),
        "horizon": 4,
        "stack": stack,
        "graph": a_linear_graph((stack, 3) if stack > 1 else (3,), 4),
        "exploration": Exploration(0.0, 0.0, 0),
        "evaluation": Evaluation(0, 3),
    }
    return a_spec(**(defaults | changes))


def a_stamp_parcel(steps: int = 4, stamp: float = 0.0, version: int = 1) -> Parcel:
    """One trajectory of the stamping environment; all its observations are one number."""
    columns = {
        OBSERVATIONS: np.full((steps + 1, 3), stamp, np.float32),
        ACTIONS: np.zeros(steps, np.int64),
        REWARDS: np.zeros(steps, np.float32),
    }
    return Parcel(
        Version(1, version), np.array([steps], np.int32), np.array([Ending.OPEN], np.uint8), columns
    )


def a_linear_graph(observation: tuple[int, ...], actions: int) -> Graph:
    """An acting graph as a learner exports it.

    q [N, actions] = flattened observations times a matrix, plus a bias.
    """
    width = int(np.prod(observation))
    weights = (Tensor("matrix", "float32", (width, actions)), Tensor("bias", "float32", (actions,)))
    offsets, _ = layout(weight.size for weight in weights)
    initializers = []
    for weight, offset in zip(weights, offsets, strict=True):
        proto = TensorProto(
            name=f"weights.{weight.name}", data_type=TensorProto.FLOAT, dims=weight.shape
        )
        proto.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "weights"), ("offset", offset), ("length", weight.size)):
            proto.external_data.add(key=key, value=str(value))
        initializers.append(proto)
    flat = "observations" if len(observation) == 1 else "flat"
    nodes = [helper.make_node("Gemm", [flat, "weights.matrix", "weights.bias"], ["q"])]
    if flat == "flat":
        nodes.insert(0, helper.make_node("Flatten", ["observations"], ["flat"]))
    (observations, q) = (
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(np.dtype("float32")), ["batch", *shape]
        )
        for name, shape in (("observations", observation), ("q", (actions,)))
    )
    body = helper.make_graph(nodes, "policy", [observations], [q], initializers)
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    inputs, outputs = (
        (Tensor("observations", "float32", observation),),
        (Tensor("q", "float32", (actions,)),),
    )
    return Graph(model.SerializeToString(), inputs, outputs, weights)


def heavy_graph(graph: Graph, side: int, products: int) -> Graph:
    """Return a linear graph that also makes a matrix [side, side], multiplies it and adds 0."""
    model = onnx.load_from_string(graph.model)
    body = model.graph
    body.node[-1].output[0] = "light"
    body.initializer.append(numpy_helper.from_array(np.array([side, side]), "sides"))
    body.initializer.append(numpy_helper.from_array(np.zeros(1, np.float32), "nothing"))
    make = helper.make_node
    nodes = [
        make("ReduceSum", ["observations"], ["sum"], keepdims=0),
        make("Expand", ["sum", "sides"], ["x0"]),
        *(make("MatMul", [f"x{n}", "x0"], [f"x{n + 1}"]) for n in range(products)),
        make("ReduceMax", [f"x{products}"], ["most"], keepdims=0),
        make("Mul", ["most", "nothing"], ["zero"]),
        make("Add", ["light", "zero"], ["q"]),
    ]
    body.node.extend(nodes)
    return structs.replace(graph, model=model.SerializeToString())
