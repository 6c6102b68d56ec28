"""The acting graph of a policy module: exported once, and proved before an actor uses it."""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

from farflung.actor.acting.graph_check import initializer
from farflung.actor.acting.policy import Policy
from farflung.common.data.spec import Graph, Space, Tensor, column_name
from farflung.common.data.states import states
from farflung.common.data.weights import Version, Weights, pack
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.learner.graph import layers, recurrence, tracing
from farflung.learner.graph.model import serialized
from farflung.learner.graph.tracing import Tensors, arguments, translated

DTYPES = ("float32", "float64", "int64", "int32", "uint8", "bool")  # that actors accept
# Relative to the largest output, or to 1: float32 sums in another order differ by 1e-6 to 1e-5.
TOLERANCE = 1e-4


def observation_inputs(observation: Mapping[str, Space], stack: int) -> tuple[Tensor, ...]:
    """Return the graph inputs for these observations: each leaf as in its space, or stacked."""
    frames = (stack,) if stack > 1 else ()
    return tuple(
        Tensor(column_name(key), space.dtype, frames + space.shape)
        for key, space in observation.items()
    )


def state_arrays(module: nn.Module, graph: Graph) -> dict[str, np.ndarray]:
    """Return the weights of the graph, in its order.

    On the CPU they share the module's memory: pack them before the next update.
    """
    return _arrays(_tensors(module), graph)


def export(module: nn.Module, inputs: tuple[Tensor, ...], outputs: tuple[str, ...]) -> Graph:
    """Return the acting graph of a module, or refuse a module that actors cannot run.

    The module is called with the observations, one tensor [N, *shape] or a dict of them by key,
    and with every further input by keyword: a recurrent state by its name. It returns one tensor
    [N, *shape], or a tuple of them in the order of `outputs`. Its weights are its parameters and
    buffers.
    """
    module = _acting(module)
    tensors = _tensors(module)
    if odd := [tensor for tensor in _all(tensors) if tensor.dtype not in DTYPES]:
        raise ConfigurationError(
            f"The policy module's {odd[0].name} is {odd[0].dtype}: "
            f"convert it to one of {', '.join(DTYPES)}."
        )
    samples = _samples(inputs, 3, torch.Generator().manual_seed(0))
    results = _require_function(module, samples, outputs)
    outs = tuple(_described(name, rows[0]) for name, rows in zip(outputs, results, strict=True))
    recurrence.require_returned(inputs, outs)
    written = layers.written(module, inputs, outputs)
    nodes, constants = written or tracing.traced(module, tensors, samples, outputs)
    used = {name for node in nodes for name in node.input}
    weights = tuple(weight for weight in _all(tensors) if initializer(weight.name) in used)
    return Graph(serialized(nodes, constants, inputs, outs, weights), inputs, outs, weights)


def prove(module: nn.Module, graph: Graph) -> None:
    """Show that graph and module agree for any weights, or raise and name the tensor at fault."""
    module = _acting(module)
    tensors = _tensors(module)
    if other := [weight.name for weight in graph.weights if weight not in _all(tensors)]:
        raise ConfigurationError(
            "The acting graph takes a tensor that the policy module does not have in this form: "
            f"{other[0]}."
        )
    generator = torch.Generator().manual_seed(1)
    with _accepted():
        proof = _Proof(module, graph, Policy(graph))
        for _ in range(2):
            changed = {name: _changed(tensor, generator) for name, tensor in tensors.items()}
            for batch in (1, 5):
                proof.require_same(changed, _samples(graph.inputs, batch, generator))
            if states(graph):
                samples = partial(_samples, graph.inputs, recurrence.SEATS, generator)
                recurrence.require_same(graph, partial(proof.run, changed), samples, _near)


@contextmanager
def _accepted() -> Iterator[None]:
    """Turn an actor's refusal into an error of the learner."""
    try:
        yield
    except Refused as error:
        raise ConfigurationError(
            f"Actors would refuse the acting graph of this policy module: {error.detail}."
        ) from error


@dataclass(frozen=True, slots=True)
class _Proof:
    """A module and its graph, side by side."""

    module: nn.Module
    graph: Graph
    policy: Policy

    def require_same(self, tensors: Tensors, samples: Tensors) -> None:
        """Refuse if the two differ, or if the graph differs from itself."""
        expected, found = self.run(tensors, samples)
        repeated = self.policy.answer(_plain(samples))
        for output, expect, got, again in zip(
            self.graph.outputs, expected, found, repeated, strict=True
        ):
            if got.numpy().tobytes() != again.tobytes():
                raise ConfigurationError(
                    f"The acting graph returns different {output.name} for the same input."
                )
            if not _near(expect, got):
                culprit = self.culprit(tensors, samples)
                raise ConfigurationError(
                    f"The acting graph and the policy module differ in {output.name}: {culprit}."
                )

    def run(
        self, tensors: Tensors, samples: Tensors
    ) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
        """Return the outputs of the module, and those of the graph in an actor's session."""
        block = pack(self.graph.weights, _arrays(tensors, self.graph))
        self.policy.load(Weights("proof", "proof", Version(0, 0), 0, 0, self.graph.weights, block))
        found = map(torch.from_numpy, self.policy.answer(_plain(samples)))
        return _call(self.module, samples, tensors), tuple(found)

    def culprit(self, tensors: Tensors, samples: Tensors) -> str:
        """Name the tensor that has an effect in the module and none in the graph."""
        expected, found = self.run(tensors, samples)
        for name, tensor in tensors.items():
            other = _changed(tensor, torch.Generator().manual_seed(2))
            expect, got = self.run(tensors | {name: other}, samples)
            if not all(map(_near, expected, expect)) and all(map(_near, found, got)):
                return f"new values of {name} have no effect"
        return "no single tensor explains it"


def _require_function(
    module: nn.Module, samples: Tensors, outputs: tuple[str, ...]
) -> tuple[torch.Tensor, ...]:
    """Return the module's outputs; refuse a module that is not a function of each row."""
    before = {name: tensor.clone() for name, tensor in _tensors(module).items()}
    found, again = _call(module, samples), _call(module, samples)
    if changed := [
        name for name, tensor in _tensors(module).items() if not torch.equal(tensor, before[name])
    ]:
        raise ConfigurationError(
            f"The policy module changes {changed[0]} while it acts: "
            "let it do so in training mode only."
        )
    seats = len(next(iter(samples.values())))
    if len(found) != len(outputs) or any(rows.shape[:1] != (seats,) for rows in found):
        shapes = ", ".join(str(tuple(rows.shape)) for rows in found)
        raise ConfigurationError(
            f"The policy module must return {', '.join(outputs)} with one row for each of {seats} "
            f"seats; it returned {shapes}."
        )
    if not all(map(torch.equal, found, again)):
        raise ConfigurationError(
            "The policy module returns different outputs for the same input: "
            "take random numbers as an input instead."
        )
    _require_separate(module, samples, outputs, found)
    return found


def _require_separate(
    module: nn.Module, samples: Tensors, outputs: tuple[str, ...], found: tuple[torch.Tensor, ...]
) -> None:
    """Refuse a module that mixes seats in its output."""
    alone = [
        _call(module, {name: sample[seat : seat + 1] for name, sample in samples.items()})
        for seat in range(len(found[0]))
    ]
    for name, together, *rows in zip(outputs, found, *alone, strict=True):
        if not _near(together, torch.cat(rows)):
            raise ConfigurationError(
                f"The policy module's {name} for a seat depends on the other seats: "
                "does it use batch statistics in eval mode?"
            )


def _acting(module: nn.Module) -> nn.Module:
    """Return a copy of the module in eval mode: the export leaves traces in tied weights."""
    with translated("cannot be copied"):
        return copy.deepcopy(module).cpu().eval().requires_grad_(False)


def _tensors(module: nn.Module) -> Tensors:
    """Return the parameters and buffers of a module, tied ones once."""
    return {
        name: tensor.detach()
        for name, tensor in (*module.named_parameters(), *module.named_buffers())
    }


def _all(tensors: Tensors) -> list[Tensor]:
    return [_described(name, tensor) for name, tensor in tensors.items()]


def _described(name: str, tensor: torch.Tensor) -> Tensor:
    """Return the name, dtype and shape of a tensor."""
    return Tensor(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))


def _arrays(tensors: Tensors, graph: Graph) -> dict[str, np.ndarray]:
    return {
        weight.name: tensors[weight.name].cpu().contiguous().numpy() for weight in graph.weights
    }


def _plain(samples: Tensors) -> dict[str, np.ndarray]:
    return {name: sample.numpy() for name, sample in samples.items()}


def _samples(inputs: tuple[Tensor, ...], batch: int, generator: torch.Generator) -> Tensors:
    """Return random inputs.

    Bytes take all values. Other integers are 0 or 1, because a graph does not declare their range.
    """
    return {each.name: _random(each.dtype, (batch, *each.shape), generator) for each in inputs}


def _random(dtype: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    kind: torch.dtype = getattr(torch, dtype)
    if kind.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=kind)
    return torch.randint(256 if dtype == "uint8" else 2, shape, generator=generator).to(kind)


def _changed(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return other values that are valid for any module.

    Positive values stay positive, zeros become positive, and integers change places. The mean of
    others stays: a shift would add up over many inputs, and rounding would tell module and graph
    apart.
    """
    if not tensor.is_floating_point():
        return tensor.flatten()[torch.randperm(tensor.numel(), generator=generator)].reshape(
            tensor.shape
        )
    factor, term = (
        torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype) for _ in range(2)
    )
    return torch.where(tensor == 0, 0.1 * term, tensor * (0.5 + factor))


def _call(
    module: nn.Module, samples: Tensors, tensors: Tensors | None = None
) -> tuple[torch.Tensor, ...]:
    """Return the module's outputs, with its own tensors or with others."""
    observations, further = arguments(samples)
    with torch.no_grad(), translated("cannot be called"):
        found = (
            functional_call(module, tensors, (observations,), further)
            if tensors
            else module(observations, **further)
        )
    found = found if isinstance(found, tuple) else (found,)
    if odd := [output for output in found if not isinstance(output, torch.Tensor)]:
        raise ConfigurationError(
            f"The policy module returned {type(odd[0]).__name__}: "
            "return a tensor, or a tuple of tensors."
        )
    return found


def _near(expected: torch.Tensor, found: torch.Tensor) -> bool:
    """Return whether two outputs are equal except for rounding, and not NaN."""
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return False
    if not expected.is_floating_point():
        return torch.equal(found, expected)
    largest = torch.where(expected.isfinite(), expected.abs(), 1.0).max()
    return torch.allclose(found, expected, rtol=0.0, atol=TOLERANCE * max(1.0, float(largest)))
