"""An ONNX model without weights, made of nodes and constants: the form in which actors get it."""

from collections.abc import Iterable

import numpy as np
import onnx
from onnx import helper

from farflung.actor.acting.graph_check import LOCATION, initializer
from farflung.common.data.layout import layout
from farflung.common.data.spec import Tensor

OPSET = 20  # onnxruntime 1.17 and later run it
IR_VERSION = 10  # the newest that onnxruntime 1.17 reads


def serialized(
    nodes: Iterable[onnx.NodeProto],
    constants: Iterable[onnx.TensorProto],
    inputs: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
    weights: tuple[Tensor, ...],
) -> bytes:
    """Return the model. Its weights are places in the block of a weights message."""
    graph = helper.make_graph(
        list(nodes),
        "policy",
        _values(inputs),
        _values(outputs),
        [*_external(weights), *constants],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    return bytes(model.SerializeToString())


def element(dtype: str) -> int:
    """Return ONNX's number of a dtype."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _values(tensors: tuple[Tensor, ...]) -> list[onnx.ValueInfoProto]:
    return [
        helper.make_tensor_value_info(tensor.name, element(tensor.dtype), ["batch", *tensor.shape])
        for tensor in tensors
    ]


def _external(weights: tuple[Tensor, ...]) -> list[onnx.TensorProto]:
    """Return each weight as an offset in the block of a weights message."""
    offsets, _ = layout(weight.size for weight in weights)
    protos = []
    for weight, offset in zip(weights, offsets, strict=True):
        proto = onnx.TensorProto(
            name=initializer(weight.name), data_type=element(weight.dtype), dims=weight.shape
        )
        proto.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", LOCATION), ("offset", offset), ("length", weight.size)):
            proto.external_data.add(key=key, value=str(value))
        protos.append(proto)
    return protos
