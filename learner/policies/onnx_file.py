"""A policy as one ONNX file: the acting graph with its weights, and the choice of the action.

Its inputs are observations as environments return them, so that any onnxruntime runs it alone.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from farflung.actor.acting.graph_check import initializer
from farflung.actor.acting.loaded import Starts
from farflung.common import heads
from farflung.common.data.spec import ACTIONS, Space, Spec, column_name
from farflung.common.data.weights import Weights
from farflung.common.heads.bounded import Scale
from farflung.common.heads.gaussian import bounds
from farflung.common.heads.masks import LOWEST, mask_shape
from farflung.common.process.errors import ConfigurationError
from farflung.learner.policies.exported import MASK

ACTION = "action"  # the output that environments take
MAX_BYTES = 2**31 - 1  # of a protobuf message


def written(spec: Spec, starts: Starts, weights: Weights, metadata: Mapping[str, str]) -> bytes:
    """Return the model."""
    model = onnx.load_model_from_string(spec.graph.model)
    graph = model.graph
    _embed(graph, weights)
    for key, space in spec.observation.items():
        if (name := column_name(key)) in starts:
            _count_from(graph, name, np.reshape(starts[name], space.shape))
    _choose(graph, spec, starts)
    graph.name = "policy"
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value)
    if model.ByteSize() > MAX_BYTES:
        raise ConfigurationError(
            f"the policy has {model.ByteSize()} bytes, and an ONNX file holds 2 GiB: "
            "export it with --format safetensors"
        )
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _embed(graph: onnx.GraphProto, weights: Weights) -> None:
    """Put the weights into the model."""
    arrays = {initializer(name): array for name, array in weights.arrays.items()}
    for tensor in graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))


def _count_from(graph: onnx.GraphProto, name: str, start: np.ndarray) -> None:
    """Let an input count from another number than 0, as its space does."""
    counted = f".{name}.counted"
    for node in graph.node:
        for place, taken in enumerate(node.input):
            if taken == name:
                node.input[place] = counted
    (element,) = (v.type.tensor_type.elem_type for v in graph.input if v.name == name)
    wide, less = f".{name}.wide", f".{name}.less"
    _add_constant(graph, f".{name}.start", start.astype(np.int64))
    first = [
        helper.make_node("Cast", [name], [wide], to=TensorProto.INT64),
        helper.make_node("Sub", [wide, f".{name}.start"], [less]),
        helper.make_node("Cast", [less], [counted], to=element),
    ]
    nodes = [*first, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def _choose(graph: onnx.GraphProto, spec: Spec, starts: Starts) -> None:
    """Add the action as the first output, if the head has a greedy choice that a file can hold."""
    head = heads.find(spec.head)
    how, answer = getattr(head, "best", ""), spec.graph.outputs[0].name
    if how not in ("argmax", "argmax of each", "clip", "squash"):
        return
    element = int(helper.np_dtype_to_tensor_dtype(np.dtype(spec.action.dtype)))
    if how == "argmax":
        if heads.masked(spec):
            answer = _allow(graph, answer, spec)
        _add_constant(graph, ".start", np.array(starts.get(ACTIONS, (0,))[0], np.int64))
        graph.node.extend(
            [
                helper.make_node("ArgMax", [answer], [".best"], axis=1, keepdims=0),
                helper.make_node("Add", [".best", ".start"], [".chosen"]),
            ]
        )
    elif how == "argmax of each":
        if heads.masked(spec):
            answer = _allow(graph, answer, spec)
        _choose_each(graph, answer, spec.action, starts.get(ACTIONS, (0,)))
    else:
        if how == "squash":
            answer = _squash(graph, answer, spec)
        low, high = bounds(spec.action)
        _add_constant(graph, ".low", low)
        _add_constant(graph, ".high", high)
        graph.node.extend(
            [
                helper.make_node("Max", [answer, ".low"], [".above"]),
                helper.make_node("Min", [".above", ".high"], [".chosen"]),
            ]
        )
    graph.node.append(helper.make_node("Cast", [".chosen"], [ACTION], to=element))
    others = list(graph.output)
    del graph.output[:]
    shape = ["batch", *spec.action.shape]
    graph.output.extend([helper.make_tensor_value_info(ACTION, element, shape), *others])


def _squash(graph: onnx.GraphProto, answer: str, spec: Spec) -> str:
    """Add the tanh of an answer, scaled to the bounds of the actions, in their dtype."""
    scale = Scale(spec.action)
    _add_constant(graph, ".half", scale.half)
    _add_constant(graph, ".center", scale.center)
    element = int(helper.np_dtype_to_tensor_dtype(np.dtype(spec.action.dtype)))
    graph.node.extend(
        [
            helper.make_node("Tanh", [answer], [".squashed"]),
            helper.make_node("Mul", [".squashed", ".half"], [".scaled"]),
            helper.make_node("Add", [".scaled", ".center"], [".moved"]),
            helper.make_node("Cast", [".moved"], [".within"], to=element),
        ]
    )
    return ".within"


def _choose_each(graph: onnx.GraphProto, answer: str, action: Space, start: Sequence[int]) -> None:
    """Add the best of each choice, from logits that lie one after the other."""
    best, first = [], 0
    _add_constant(graph, ".columns", np.array([1], np.int64))
    for number, size in enumerate(action.sizes):
        names = f".first.{number}", f".end.{number}"
        for name, at in zip(names, (first, first + size), strict=True):
            _add_constant(graph, name, np.array([at], np.int64))
        part, chosen = f".part.{number}", f".best.{number}"
        graph.node.extend(
            [
                helper.make_node("Slice", [answer, *names, ".columns"], [part]),
                helper.make_node("ArgMax", [part], [chosen], axis=1, keepdims=1),
            ]
        )
        best.append(chosen)
        first += size
    _add_constant(graph, ".shape", np.array([-1, *action.shape], np.int64))
    starts = np.broadcast_to(np.array(start, np.int64), (len(action.sizes),))
    _add_constant(graph, ".start", starts.reshape(action.shape))
    graph.node.extend(
        [
            helper.make_node("Concat", best, [".each"], axis=1),
            helper.make_node("Reshape", [".each", ".shape"], [".shaped"]),
            helper.make_node("Add", [".shaped", ".start"], [".chosen"]),
        ]
    )


def _allow(graph: onnx.GraphProto, answer: str, spec: Spec) -> str:
    """Add the mask as an input; return the values in which other actions than it allows are lowest.

    It is `common/heads/masks.py` as a graph.
    """
    shape = ["batch", *mask_shape(spec.action)]
    graph.input.append(helper.make_tensor_value_info(MASK, TensorProto.BOOL, shape))
    dtype = spec.graph.outputs[0].dtype
    _add_constant(graph, ".lowest", np.array(LOWEST, dtype))
    _add_constant(graph, ".illegal", np.array(-np.inf, dtype))
    graph.node.extend(
        [
            helper.make_node("Max", [answer, ".lowest"], [".bounded"]),
            helper.make_node("Where", [MASK, ".bounded", ".illegal"], [".allowed"]),
        ]
    )
    return ".allowed"


def _add_constant(graph: onnx.GraphProto, name: str, array: np.ndarray) -> None:
    graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
