"""What the tests of the actor share."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from common.spec import Graph, Tensor
from common.weights import layout


@pytest.fixture(scope="session")
def linear() -> Graph:
    """An acting graph as a learner writes it: q [N, 6] = observations [N, 4] times a matrix, plus a bias."""
    weights = (Tensor("matrix", "float32", (4, 6)), Tensor("bias", "float32", (6,)))
    offsets, _ = layout(weight.size for weight in weights)
    initializers = []
    for weight, offset in zip(weights, offsets, strict=True):
        proto = TensorProto(name=f"weights.{weight.name}", data_type=TensorProto.FLOAT, dims=weight.shape)
        proto.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "weights"), ("offset", offset), ("length", weight.size)):
            proto.external_data.add(key=key, value=str(value))
        initializers.append(proto)
    node = helper.make_node("Gemm", ["observations", "weights.matrix", "weights.bias"], ["q"])
    (observations, q) = (
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype("float32")), ["batch", width])
        for name, width in (("observations", 4), ("q", 6))
    )
    body = helper.make_graph([node], "policy", [observations], [q], initializers)
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    inputs, outputs = (Tensor("observations", "float32", (4,)),), (Tensor("q", "float32", (6,)),)
    return Graph(model.SerializeToString(), inputs, outputs, weights)
