"""A policy module as an ONNX model without weights: the only user of onnx and torch's exporter."""

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import nn
from torch.func import functional_call

from farflung.actor.acting.graph_check import LOCATION, initializer
from farflung.common.data.spec import OBSERVATIONS, Tensor, layout
from farflung.common.process.errors import ConfigurationError

OPSET = 20  # onnxruntime 1.17 and later run it
IR_VERSION = 10  # the newest that onnxruntime 1.17 reads

Tensors = dict[str, torch.Tensor]


def write(
    module: nn.Module, tensors: Tensors, samples: Tensors, outputs: tuple[Tensor, ...]
) -> tuple[bytes, tuple[str, ...]]:
    """Return the model, and the names of its weights in the order of their block."""
    traced = _traced(module, tensors, samples, [f"output.{output.name}" for output in outputs])
    used = {name for node in traced.graph.node for name in node.input}
    weights = tuple(
        described(name, tensor) for name, tensor in tensors.items() if initializer(name) in used
    )
    inputs = tuple(described(name, sample[0]) for name, sample in samples.items())
    return _bare(traced, inputs, outputs, weights).SerializeToString(), tuple(
        weight.name for weight in weights
    )


def arguments(samples: Tensors) -> tuple[torch.Tensor | Tensors, Tensors]:
    """Return the arguments of a policy module: observations, alone or by key, and keywords."""
    prefix = OBSERVATIONS + "."
    further = {
        name: value
        for name, value in samples.items()
        if name != OBSERVATIONS and not name.startswith(prefix)
    }
    if OBSERVATIONS in samples:
        return samples[OBSERVATIONS], further
    return {
        name.removeprefix(prefix): value
        for name, value in samples.items()
        if name.startswith(prefix)
    }, further


def described(name: str, tensor: torch.Tensor) -> Tensor:
    """Return the name, dtype and shape of a tensor."""
    return Tensor(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn an error of a module or of torch's exporter into one sentence: `what`, and why."""
    try:
        yield
    except (
        RuntimeError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        AssertionError,
    ) as error:
        reason: BaseException = error
        while reason.__cause__ is not None:
            reason = reason.__cause__
        first = next(iter(str(reason).strip().splitlines()), type(reason).__name__)
        raise ConfigurationError(f"The policy module {what}: {first}") from error


class _Stateless(nn.Module):
    """A module as a function of its tensors, so that the exporter folds none into a constant."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(
        self, tensors: Tensors, observations: torch.Tensor | Tensors, further: Tensors
    ) -> object:
        return functional_call(self.module, tensors, (observations,), further)


def _traced(
    module: nn.Module, tensors: Tensors, samples: Tensors, outputs: list[str]
) -> onnx.ModelProto:
    """Return torch's export of a module.

    Our names contain a dot. Torch's own names do not, and torch does not prevent a collision.
    """
    observations, further = arguments(samples)
    batch = {0: torch.export.Dim("batch", min=1)}
    seen = batch if isinstance(observations, torch.Tensor) else dict.fromkeys(observations, batch)
    shapes = (dict.fromkeys(tensors), seen, dict.fromkeys(further, batch))
    inputs = [*map(initializer, tensors), *(f"input.{name}" for name in samples)]
    with _quiet(), translated("cannot be written as an acting graph"):
        program = torch.export.export(
            _Stateless(module), (tensors, observations, further), dynamic_shapes=shapes
        )
        _require_registered(program.constants)
        written = torch.onnx.export(
            program,
            input_names=inputs,
            output_names=outputs,
            opset_version=OPSET,
            external_data=False,
            verbose=False,
        )
        assert written is not None  # only an export to a file returns None
        return written.model_proto


def _require_registered(constants: Mapping[str, object]) -> None:
    """Refuse plain tensors that are attributes of the module.

    Literals in the module's code have names of torch's own, and are harmless.
    """
    if plain := [name.removeprefix("module.") for name in constants if "lifted_tensor" not in name]:
        raise ConfigurationError(
            f"The policy module's {plain[0]} is a plain tensor, which actors do not receive: "
            "use register_buffer."
        )


def _bare(
    traced: onnx.ModelProto,
    inputs: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
    weights: tuple[Tensor, ...],
) -> onnx.ModelProto:
    """Return the model with external weights and without torch's paths, texts and names."""
    names = {"": ""} | {initializer(weight.name): initializer(weight.name) for weight in weights}
    names |= {f"input.{tensor.name}": tensor.name for tensor in inputs} | {
        f"output.{tensor.name}": tensor.name for tensor in outputs
    }
    made = [constant.name for constant in traced.graph.initializer] + [
        name for node in traced.graph.node for name in node.output
    ]
    names |= {name: f".{number}" for number, name in enumerate(made) if name not in names}
    constants = [
        numpy_helper.from_array(numpy_helper.to_array(c), names[c.name])
        for c in traced.graph.initializer
    ]
    nodes = [
        onnx.NodeProto(
            op_type=node.op_type,
            domain=node.domain,
            attribute=node.attribute,
            input=[names[name] for name in node.input],
            output=[names[name] for name in node.output],
        )
        for node in traced.graph.node
    ]
    graph = helper.make_graph(
        nodes, "policy", _values(inputs), _values(outputs), _external(weights) + constants
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )


def _values(tensors: tuple[Tensor, ...]) -> list[onnx.ValueInfoProto]:
    return [
        helper.make_tensor_value_info(tensor.name, _element(tensor), ["batch", *tensor.shape])
        for tensor in tensors
    ]


def _external(weights: tuple[Tensor, ...]) -> list[onnx.TensorProto]:
    """Return each weight as an offset in the block of a weights message."""
    offsets, _ = layout(weight.size for weight in weights)
    protos = []
    for weight, offset in zip(weights, offsets, strict=True):
        proto = onnx.TensorProto(
            name=initializer(weight.name), data_type=_element(weight), dims=weight.shape
        )
        proto.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", LOCATION), ("offset", offset), ("length", weight.size)):
            proto.external_data.add(key=key, value=str(value))
        protos.append(proto)
    return protos


def _element(tensor: Tensor) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype)))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's warnings: they address its developers, or miss torchvision."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
