"""Any policy module as an ONNX model, by torch's exporter, which takes seconds to load."""

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import onnx
import torch
from onnx import numpy_helper
from torch import nn
from torch.func import functional_call

from farflung.actor.acting.graph_check import initializer
from farflung.common.data.spec import OBSERVATIONS
from farflung.common.data.states import STATE
from farflung.common.process.errors import ConfigurationError
from farflung.learner.graph.model import OPSET

Tensors = dict[str, torch.Tensor]


def traced(
    module: nn.Module, tensors: Tensors, samples: Tensors, outputs: tuple[str, ...]
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Return the nodes and constants of a module, by the names that the model has for them.

    Torch's paths, texts and names stay behind.
    """
    graph = _traced(module, tensors, samples, [f"output.{name}" for name in outputs]).graph
    names = {"": ""} | {initializer(name): initializer(name) for name in tensors}
    names |= {f"input.{name}": name for name in samples}
    names |= {f"output.{name}": name for name in outputs}
    made = [constant.name for constant in graph.initializer]
    made += [name for node in graph.node for name in node.output]
    names |= {name: f".{number}" for number, name in enumerate(made) if name not in names}
    constants = [
        numpy_helper.from_array(numpy_helper.to_array(constant), names[constant.name])
        for constant in graph.initializer
    ]
    nodes = [
        onnx.NodeProto(
            op_type=node.op_type,
            domain=node.domain,
            attribute=node.attribute,
            input=[names[name] for name in node.input],
            output=[names[name] for name in node.output],
        )
        for node in graph.node
    ]
    return nodes, constants


def arguments(samples: Tensors) -> tuple[torch.Tensor | Tensors, Tensors]:
    """Return the arguments of a policy module: observations, alone or by key, and keywords."""
    prefix = OBSERVATIONS + "."
    further = {
        name.removeprefix(STATE): value
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
