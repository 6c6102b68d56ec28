"""The check of an acting graph, which is untrusted input: no session is built before it passes.

A graph that passes is arithmetic on its own inputs and weights, and reads nothing else. The cost of
that arithmetic is not bounded.
"""

import math

from farflung.actor.acting.protobuf import Field, Message, Wire
from farflung.common.data.layout import layout
from farflung.common.data.spec import Graph, Tensor
from farflung.common.process.errors import Refused

LOCATION = "weights"  # of a model's external data: the block of the weights message

MAX_MODEL_BYTES = 1 << 20  # a large policy's model has some 10 KB: its weights are not in it
MAX_WEIGHT_BYTES = 1 << 30  # of a weights message
MAX_DIMENSIONS = 8

# No control flow, no sequences or texts, nothing random, no output with a shape that follows from
# values.
OPERATORS = frozenset(
    """
    Abs Add And ArgMax ArgMin Attention AveragePool BatchNormalization Cast CastLike Ceil Celu Clip
    Concat Constant ConstantOfShape Conv ConvTranspose Cos CumSum DepthToSpace Div Einsum Elu Equal
    Erf Exp Expand Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool
    GlobalMaxPool Greater GreaterOrEqual GroupNormalization HardSigmoid HardSwish Identity
    InstanceNormalization IsInf IsNaN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log
    LogSoftmax LpNormalization MatMul Max MaxPool Mean Min Mish Mod Mul Neg Not OneHot Or PRelu Pad
    Pow RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSumExp ReduceMax ReduceMean
    ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Round ScatterElements ScatterND Selu
    Shape Sigmoid Sign Sin Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub
    Sum Swish Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Where Xor
    """.split()  # noqa: SIM905  a list of one name a line shows no more
)

ELEMENTS = {
    "float32": 1,
    "uint8": 2,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float64": 11,
}  # ONNX's numbers of the dtypes
SIZES = {1: 4, 2: 1, 6: 4, 7: 8, 9: 1, 11: 8}  # bytes of an element

# The parts of onnx.proto that a model may use, by field number. Functions, subgraphs, training and
# sparse tensors are not among them.
MODEL = {
    1: Field("ir_version", Wire.VARINT),
    2: Field("producer_name"),
    3: Field("producer_version"),
    7: Field("graph"),
    8: Field("opset_import", many=True),
}
OPSET = {1: Field("domain"), 2: Field("version", Wire.VARINT)}
GRAPH = {
    1: Field("node", many=True),
    2: Field("name"),
    5: Field("initializer", many=True),
    11: Field("input", many=True),
    12: Field("output", many=True),
}
NODE = {
    1: Field("input", many=True),
    2: Field("output", many=True),
    3: Field("name"),
    4: Field("op_type"),
    5: Field("attribute", many=True),
    7: Field("domain"),
}
ATTRIBUTE = {
    1: Field("name"),
    2: Field("f", Wire.FOUR_BYTES),
    3: Field("i", Wire.VARINT),
    4: Field("s"),
    5: Field("t"),
    7: Field("floats", Wire.FOUR_BYTES, many=True),
    8: Field("ints", Wire.VARINT, many=True),
    9: Field("strings", many=True),
    20: Field("type", Wire.VARINT),
}
CONSTANT = {
    1: Field("dims", Wire.VARINT, many=True),
    2: Field("data_type", Wire.VARINT),
    8: Field("name"),
    9: Field("raw_data"),
}
INITIALIZER = CONSTANT | {
    13: Field("external_data", many=True),
    14: Field("data_location", Wire.VARINT),
}
ENTRY = {1: Field("key"), 2: Field("value")}
VALUE = {1: Field("name"), 2: Field("type")}
TYPE = {1: Field("tensor_type")}
TENSOR_TYPE = {1: Field("elem_type", Wire.VARINT), 2: Field("shape")}
SHAPE = {1: Field("dim", many=True)}
DIMENSION = {1: Field("dim_value", Wire.VARINT), 2: Field("dim_param")}


def initializer(weight: str) -> str:
    """Return the name of a weight in the model. No name of torch's or of an output can equal it."""
    return f"{LOCATION}.{weight}"


def check(graph: Graph) -> None:
    """Refuse a graph that is anything but ordinary arithmetic on its own inputs and weights."""
    _require(len(graph.model) <= MAX_MODEL_BYTES, f"it has {len(graph.model)} bytes")
    for tensor in (*graph.inputs, *graph.outputs, *graph.weights):
        _check_tensor(tensor)
    _require(
        sum(weight.size for weight in graph.weights) <= MAX_WEIGHT_BYTES,
        "its weights are too large",
    )
    model = Message(memoryview(graph.model), MODEL, "model")
    _require(
        [opset.text("domain") for opset in model.messages("opset_import", OPSET)] == [""],
        "it imports other operators than ONNX's own",
    )
    body = model.message("graph", GRAPH)
    _check_values(body, "input", graph.inputs)
    _check_values(body, "output", graph.outputs)
    _check_initializers(body, graph)
    _check_nodes(body)


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Refused("graph", otherwise)


def _check_tensor(tensor: Tensor) -> None:
    _require(tensor.dtype in ELEMENTS, f"{tensor.name} is {tensor.dtype}")
    _require(
        len(tensor.shape) <= MAX_DIMENSIONS and all(side >= 0 for side in tensor.shape),
        f"{tensor.name} has shape {tensor.shape}",
    )


def _check_values(body: Message, name: str, tensors: tuple[Tensor, ...]) -> None:
    """Require the inputs or outputs that the spec names: any number of seats, then the shape."""
    values = body.messages(name, VALUE)
    _require(
        [value.text("name") for value in values] == [tensor.name for tensor in tensors],
        f"its {name}s are not those of the spec",
    )
    for value, tensor in zip(values, tensors, strict=True):
        kind = value.message("type", TYPE).message("tensor_type", TENSOR_TYPE)
        batch, *sides = kind.message("shape", SHAPE).messages("dim", DIMENSION) or (None,)
        same = (
            kind.integer("elem_type") == ELEMENTS[tensor.dtype]
            and tuple(side.integer("dim_value") for side in sides) == tensor.shape
        )
        _require(
            batch is not None and batch.text("dim_param") != "" and same,
            f"its {name} {tensor.name} is not that of the spec",
        )


def _check_initializers(body: Message, graph: Graph) -> None:
    """Each weight lies where the weights message has it, and nothing else lies outside."""
    offsets, _ = layout(weight.size for weight in graph.weights)
    expected = {
        initializer(weight.name): (
            weight,
            {"location": LOCATION, "offset": str(offset), "length": str(weight.size)},
        )
        for weight, offset in zip(graph.weights, offsets, strict=True)
    }
    names = []
    for tensor in body.messages("initializer", INITIALIZER):
        name = tensor.text("name")
        names.append(name)
        if name not in expected:
            _check_constant(tensor)
            continue
        weight, place = expected[name]
        entries = [
            (entry.text("key"), entry.text("value"))
            for entry in tensor.messages("external_data", ENTRY)
        ]
        _require(
            sorted(entries) == sorted(place.items()) and tensor.integer("data_location") == 1,
            f"{weight.name} lies elsewhere",
        )
        same = (
            tensor.integers("dims") == weight.shape
            and tensor.integer("data_type") == ELEMENTS[weight.dtype]
        )
        _require(same and not tensor.parts("raw_data"), f"{weight.name} is not that of the spec")
    given = [*names, *(tensor.name for tensor in graph.inputs)]
    _require(len(set(given)) == len(given), "two of its values have one name")
    if absent := sorted(expected.keys() - set(names)):
        raise Refused("graph", f"it does not take {absent[0]}")


def _check_nodes(body: Message) -> None:
    """Each node is an operator of the list, and its tensors stand in it."""
    for node in body.messages("node", NODE):
        operator, domain = node.text("op_type"), node.text("domain")
        _require(
            domain == "" and operator in OPERATORS,
            f"the operator {domain}{'.' if domain else ''}{operator} is not on the list",
        )
        for attribute in node.messages("attribute", ATTRIBUTE):
            for tensor in attribute.messages("t", CONSTANT):
                _check_constant(tensor)


def _check_constant(tensor: Message) -> None:
    """A constant stands in the model itself, whole."""
    name, sides, kind = tensor.text("name"), tensor.integers("dims"), tensor.integer("data_type")
    _require(
        not tensor.parts("external_data") and tensor.integer("data_location") == 0,
        f"the constant {name} lies outside",
    )
    size = sum(map(len, tensor.parts("raw_data")))
    whole = (
        kind in SIZES and len(sides) <= MAX_DIMENSIONS and math.prod(sides) * SIZES[kind] == size
    )
    _require(whole, f"the constant {name} is not whole")
