"""Modules of known layers as ONNX nodes, written in milliseconds: torch's exporter takes seconds.

A module is known if each of its parts is a layer of the table below, or has a method `as_graph`
beside its `forward` that states the same in nodes. The proof of an acting graph compares the two.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import nn

from farflung.actor.acting.graph_check import initializer
from farflung.common.data.spec import OBSERVATIONS, Tensor
from farflung.common.data.states import STATE
from farflung.learner.graph.model import element


@dataclass(frozen=True, slots=True)
class Value:
    """A value in a graph: [N, *shape]."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class UnknownLayerError(Exception):
    """A module has a part that only torch's exporter can write."""


class Sheet:
    """The nodes and constants of a graph that is being written."""

    def __init__(self, module: nn.Module) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        named = (*module.named_parameters(), *module.named_buffers())
        self._names = {id(tensor): name for name, tensor in named}
        self._made = 0

    def call(self, module: nn.Module, value: Any, **states: Value) -> Any:
        """Write a module, as it is called with this value; return the value of its output.

        A recurrent state goes in by name, and comes out behind the outputs.
        """
        kind = type(module)
        changed = "forward" in vars(module) or module._forward_hooks or module._forward_pre_hooks
        if not changed and kind in LAYERS and not states:
            return LAYERS[kind](self, module, value)
        if changed or "as_graph" not in vars(kind):
            # A class that inherits it may have another `forward`.
            raise UnknownLayerError(kind.__name__)
        return module.as_graph(self, value, **states)  # type: ignore[operator]

    def node(
        self,
        operator: str,
        value: Value,
        *others: Value | str,
        dtype: str = "",
        shape: tuple[int, ...] | None = None,
        **attributes: Any,
    ) -> Value:
        """Write a node; its output is like its first input, but for the dtype and shape given."""
        inputs = [value.name, *(each if isinstance(each, str) else each.name for each in others)]
        output = self._new_name()
        self.nodes.append(helper.make_node(operator, inputs, [output], name="", **attributes))
        return Value(output, dtype or value.dtype, value.shape if shape is None else shape)

    def constant(self, number: Any, dtype: str) -> str:
        """Write a constant; return its name."""
        name = self._new_name()
        self.constants.append(numpy_helper.from_array(np.asarray(number, dtype), name))
        return name

    def weights(self, module: nn.Module) -> list[str]:
        """Return the names of a layer's own parameters, in its order."""
        own = module.parameters(recurse=False)
        return [initializer(self._names[id(tensor)]) for tensor in own]

    def tensor(self, tensor: torch.Tensor) -> str:
        """Return the name of a parameter or buffer."""
        return initializer(self._names[id(tensor)])

    def split(self, value: Value, parts: int) -> list[Value]:
        """Return a value [N, parts * width] as so many of [N, width]."""
        names = [self._new_name() for _ in range(parts)]
        self.nodes.append(
            helper.make_node("Split", [value.name], names, name="", axis=1, num_outputs=parts)
        )
        return [Value(name, value.dtype, (value.shape[0] // parts,)) for name in names]

    def lstm_step(
        self, module: nn.LSTM, value: Value, hidden: Value, cell: Value
    ) -> tuple[Value, Value]:
        """Write one step of an LSTM of one layer; return the next hidden and cell state.

        ONNX's own LSTM wants the gates in another order than torch has them.
        """
        if module.num_layers != 1 or module.bidirectional or module.proj_size or not module.bias:
            raise UnknownLayerError("an LSTM of several layers or directions")
        weight_in, weight_state, bias_in, bias_state = self.weights(module)
        width = (4 * module.hidden_size,)
        seen = self.node("Gemm", value, weight_in, bias_in, shape=width, transB=1)
        kept = self.node("Gemm", hidden, weight_state, bias_state, shape=width, transB=1)
        add, forget, new, show = self.split(self.node("Add", seen, kept), 4)
        add, forget, show = (self.node("Sigmoid", gate) for gate in (add, forget, show))
        written = self.node("Mul", add, self.node("Tanh", new))
        cell = self.node("Add", self.node("Mul", forget, cell), written)
        return self.node("Mul", show, self.node("Tanh", cell)), cell

    def flattened(self, value: Value) -> Value:
        """Return a value as [N, width]."""
        if len(value.shape) == 1:
            return value
        return self.node("Flatten", value, shape=(math.prod(value.shape),), axis=1)

    def cast(self, value: Value, dtype: str) -> Value:
        """Return a value in another dtype."""
        if value.dtype == dtype:
            return value
        return self.node("Cast", value, dtype=dtype, to=element(dtype))

    def joined(self, values: Sequence[Value]) -> Value:
        """Return values [N, width] side by side."""
        first, *others = values
        width = sum(value.shape[0] for value in values)
        return self.node("Concat", first, *others, shape=(width,), axis=1) if others else first

    def _new_name(self) -> str:
        self._made += 1
        return f".{self._made - 1}"


def written(
    module: nn.Module, inputs: tuple[Tensor, ...], outputs: tuple[str, ...]
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]] | None:
    """Return the nodes and constants of a module; None if it has a part that is not known."""
    prefix = OBSERVATIONS + "."
    values = {each.name: Value(*_fields(each)) for each in inputs}
    states = {n.removeprefix(STATE): values[n] for n in values if n.startswith(STATE)}
    leaves = {n.removeprefix(prefix): values[n] for n in values if not n.startswith(STATE)}
    if any(not name.startswith((OBSERVATIONS, STATE)) for name in values):
        return None
    sheet = Sheet(module)
    try:
        found = sheet.call(module, leaves.get(OBSERVATIONS, leaves), **states)
    except UnknownLayerError:
        return None
    found = found if isinstance(found, tuple) else (found,)
    names = {value.name: output for value, output in zip(found, outputs, strict=True)}
    if len(names) < len(outputs) or names.keys() & values.keys():
        return None  # an output that is an input, or two that are one
    for node in sheet.nodes:
        for places in (node.input, node.output):
            for at, name in enumerate(places):
                places[at] = names.get(name, name)
    return _needed(sheet, outputs)


def _needed(
    sheet: Sheet, outputs: tuple[str, ...]
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Return the nodes and constants that lead to an output, in their order."""
    wanted, nodes = {*outputs}, list[onnx.NodeProto]()
    for node in reversed(sheet.nodes):
        if wanted.intersection(node.output):
            nodes.append(node)
            wanted.update(node.input)
    return nodes[::-1], [constant for constant in sheet.constants if constant.name in wanted]


def _fields(tensor: Tensor) -> tuple[str, str, tuple[int, ...]]:
    return tensor.name, tensor.dtype, tensor.shape


def _sequential(sheet: Sheet, module: nn.Sequential, value: Value) -> Value:
    for layer in module:
        value = sheet.call(layer, value)
    return value


def _linear(sheet: Sheet, module: nn.Linear, value: Value) -> Value:
    if len(value.shape) != 1:
        raise UnknownLayerError("a linear map over one of several dimensions")
    weights = sheet.weights(module)
    return sheet.node("Gemm", value, *weights, shape=(module.out_features,), transB=1)


def _layer_norm(sheet: Sheet, module: nn.LayerNorm, value: Value) -> Value:
    weights = sheet.weights(module)
    if module.normalized_shape != value.shape[-1:] or not weights:
        raise UnknownLayerError("a norm over several dimensions or without weights")
    return sheet.node("LayerNormalization", value, *weights, axis=-1, epsilon=module.eps)


def _convolution(sheet: Sheet, module: nn.Conv2d, value: Value) -> Value:
    if isinstance(module.padding, str) or module.padding_mode != "zeros" or len(value.shape) != 3:
        raise UnknownLayerError("a convolution with padding of its own")
    sides = zip(
        value.shape[1:],
        module.kernel_size,
        module.stride,
        module.padding,
        module.dilation,
        strict=True,
    )
    places = (
        (side + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        for side, kernel, stride, padding, dilation in sides
    )
    return sheet.node(
        "Conv",
        value,
        *sheet.weights(module),
        shape=(module.out_channels, *places),
        kernel_shape=module.kernel_size,
        strides=module.stride,
        pads=(*module.padding, *module.padding),
        dilations=module.dilation,
        group=module.groups,
    )


def _flatten(sheet: Sheet, module: nn.Flatten, value: Value) -> Value:
    if (module.start_dim, module.end_dim) != (1, -1):
        raise UnknownLayerError("some dimensions, flattened")
    return sheet.flattened(value)


def _each(operator: str) -> Callable[[Sheet, nn.Module, Value], Value]:
    """Return the layer that applies an operator to each number."""
    return lambda sheet, module, value: sheet.node(operator, value)


LAYERS: Mapping[type[nn.Module], Callable[[Sheet, Any, Value], Value]] = {
    nn.Sequential: _sequential,
    nn.Linear: _linear,
    nn.LayerNorm: _layer_norm,
    nn.Conv2d: _convolution,
    nn.Flatten: _flatten,
    nn.ReLU: _each("Relu"),
    nn.Tanh: _each("Tanh"),
    nn.Sigmoid: _each("Sigmoid"),
    nn.Identity: lambda sheet, module, value: value,
}
