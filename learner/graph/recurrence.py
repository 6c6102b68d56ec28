"""The recurrent state of a policy module: what it declares, and the proof over several steps."""

from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import nn

from farflung.common.data.spec import Graph, Tensor
from farflung.common.data.states import STATE, next_name, next_places, states
from farflung.common.process.errors import ConfigurationError

STEPS, SEATS = 6, 3  # of the proof

Tensors = dict[str, torch.Tensor]
Outputs = tuple[torch.Tensor, ...]


class Near(Protocol):
    """Says if two outputs are equal except for rounding."""

    def __call__(self, expected: torch.Tensor, found: torch.Tensor) -> bool:
        """Compare an output of the module with that of the graph."""


def state_inputs(module: nn.Module) -> tuple[Tensor, ...]:
    """Return the graph inputs for the recurrent state that a module declares as its `states`."""
    declared = getattr(module, "states", {})
    if not isinstance(declared, Mapping):
        raise ConfigurationError(
            "The policy module's `states` is no mapping: it names each part of the recurrent state "
            'with its shape, as in {"hidden": (128,)}.'
        )
    for name, shape in declared.items():
        sound = isinstance(name, str) and name.isidentifier() and isinstance(shape, tuple)
        if not sound or not all(isinstance(side, int) and side > 0 for side in shape):
            raise ConfigurationError(
                f"The policy module's `states` has {name!r}: {shape!r}. A state has a name that is "
                'an argument of `forward`, and a tuple of sides, as in {"hidden": (128,)}.'
            )
    return tuple(Tensor(STATE + name, "float32", shape) for name, shape in declared.items())


def require_returned(inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> None:
    """Refuse a module that returns a state of another form than it takes."""
    found = {output.name: output for output in outputs}
    for taken in inputs:
        back = found.get(next_name(taken.name))
        if back is not None and (back.dtype, back.shape) != (taken.dtype, taken.shape):
            raise ConfigurationError(
                f"The policy module takes the state {taken.name.removeprefix(STATE)} as "
                f"{taken.dtype} {list(taken.shape)} for each seat and returns it as {back.dtype} "
                f"{list(back.shape)}."
            )


def require_same(
    graph: Graph,
    run: Callable[[Tensors], tuple[Outputs, Outputs]],
    samples: Callable[[], Tensors],
    near: Near,
) -> None:
    """Refuse if module and graph part ways over some steps from zeros, each on its own state.

    `run` returns the outputs of both for inputs by name, and `samples` returns random inputs.
    """
    places = next_places(graph)
    zeros = {
        state.name: torch.zeros((SEATS, *state.shape), dtype=getattr(torch, state.dtype))
        for state in states(graph)
    }
    ours, theirs = zeros, zeros
    for _ in range(STEPS):
        seen = samples()
        expected, _ = run(seen | ours)
        _, found = run(seen | theirs)
        for output, expect, got in zip(graph.outputs, expected, found, strict=True):
            if not near(expect, got):
                raise ConfigurationError(
                    f"The acting graph and the policy module differ in {output.name} after some "
                    "steps of their recurrent state."
                )
        ours, theirs = (
            {name: outputs[places[next_name(name)]].clone() for name in zeros}
            for outputs in (expected, found)
        )
