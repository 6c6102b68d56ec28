"""The acting graph of a policy module: written once at start, and proved against the module before anybody acts on it."""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

from farflung.actor.acting.policy import Policy
from farflung.common.data.spec import Graph, Space, Tensor, column_name
from farflung.common.data.version import Version
from farflung.common.data.weights import Weights, pack
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.learner.graph.tracing import Tensors, arguments, described, translated, write

DTYPES = ("float32", "float64", "int64", "int32", "uint8", "bool")  # of what may go to actors
TOLERANCE = (
    1e-4  # of the largest answer, or of 1: float32 sums in another order differ by 1e-6 to 1e-5
)


def observation_inputs(observation: Mapping[str, Space], stack: int) -> tuple[Tensor, ...]:
    """The inputs of a graph that sees these observations: each leaf as in its space, and stacked where there is more than one frame."""
    frames = (stack,) if stack > 1 else ()
    return tuple(
        Tensor(column_name(key), space.dtype, frames + space.shape)
        for key, space in observation.items()
    )


def state_arrays(module: nn.Module, graph: Graph) -> dict[str, np.ndarray]:
    """The tensors that the graph takes, in its order. On the CPU they are the module's own memory: pack them before the next update."""
    return _arrays(_tensors(module), graph)


def export(module: nn.Module, inputs: tuple[Tensor, ...], outputs: tuple[str, ...]) -> Graph:
    """The acting graph of a module, or a refusal that says in a sentence what the module does that no actor can do.

    The module is called with the observations, one tensor [N, *shape] or a dict of them by key, and with every further input by keyword.
    It returns one tensor [N, *shape], or a tuple of them in the order of `outputs`. What it learns are its parameters and buffers.
    """
    module = _acting(module)
    tensors = _tensors(module)
    if odd := [tensor for tensor in _described(tensors) if tensor.dtype not in DTYPES]:
        raise ConfigurationError(
            f"The policy module's {odd[0].name} is {odd[0].dtype}; actors take {', '.join(DTYPES)}."
        )
    questions = _questions(inputs, 3, torch.Generator().manual_seed(0))
    answers = _require_function(module, questions, outputs)
    answered = tuple(
        described(name, answer[0]) for name, answer in zip(outputs, answers, strict=True)
    )
    model, used = write(module, tensors, questions, answered)
    return Graph(model, inputs, answered, tuple(_described({name: tensors[name] for name in used})))


def prove(module: nn.Module, graph: Graph) -> None:
    """Show that the graph answers as the module does, whatever the weights, or refuse in a sentence that names the tensor."""
    module = _acting(module)
    tensors = _tensors(module)
    if other := [weight.name for weight in graph.weights if weight not in _described(tensors)]:
        raise ConfigurationError(
            f"The acting graph takes a tensor that the policy module does not have in this form: {other[0]}."
        )
    generator = torch.Generator().manual_seed(1)
    with _accepted():
        proof = _Proof(module, graph, Policy(graph))
        for _ in range(2):
            changed = {name: _changed(tensor, generator) for name, tensor in tensors.items()}
            for batch in (1, 5):
                proof.require_same(changed, _questions(graph.inputs, batch, generator))


@contextmanager
def _accepted() -> Iterator[None]:
    """Turn what an actor would refuse into what the learner refuses."""
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

    def require_same(self, tensors: Tensors, questions: Tensors) -> None:
        """Refuse if the two differ, or if the graph differs from itself."""
        wanted, found = self.answers(tensors, questions)
        repeated = self.policy.answer(_plain(questions))
        for output, want, got, again in zip(
            self.graph.outputs, wanted, found, repeated, strict=True
        ):
            if got.numpy().tobytes() != again.tobytes():
                raise ConfigurationError(
                    f"The acting graph answers the same question differently: {output.name}."
                )
            if not _near(want, got):
                culprit = self.culprit(tensors, questions)
                raise ConfigurationError(
                    f"The acting graph and the policy module differ in {output.name}: {culprit}."
                )

    def answers(
        self, tensors: Tensors, questions: Tensors
    ) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
        """What the module says, and what the graph says in an actor's session."""
        block = pack(self.graph.weights, _arrays(tensors, self.graph))
        self.policy.load(Weights("proof", "proof", Version(0, 0), 0, 0, self.graph.weights, block))
        return _ask(self.module, questions, tensors), tuple(
            map(torch.from_numpy, self.policy.answer(_plain(questions)))
        )

    def culprit(self, tensors: Tensors, questions: Tensors) -> str:
        """The tensor whose change the module feels and the graph does not."""
        wanted, found = self.answers(tensors, questions)
        for name, tensor in tensors.items():
            want, got = self.answers(
                tensors | {name: _changed(tensor, torch.Generator().manual_seed(2))}, questions
            )
            if not all(map(_near, wanted, want)) and all(map(_near, found, got)):
                return f"new values of {name} have no effect"
        return "no single tensor explains it"


def _require_function(
    module: nn.Module, questions: Tensors, outputs: tuple[str, ...]
) -> tuple[torch.Tensor, ...]:
    """The module's answers, which must depend on nothing but each seat's question, and leave nothing behind."""
    before = {name: tensor.clone() for name, tensor in _tensors(module).items()}
    answers, again = _ask(module, questions), _ask(module, questions)
    if changed := [
        name for name, tensor in _tensors(module).items() if not torch.equal(tensor, before[name])
    ]:
        raise ConfigurationError(
            f"The policy module changes {changed[0]} while it acts: it may do so in training mode only."
        )
    seats = len(next(iter(questions.values())))
    if len(answers) != len(outputs) or any(answer.shape[:1] != (seats,) for answer in answers):
        shapes = ", ".join(str(tuple(answer.shape)) for answer in answers)
        raise ConfigurationError(
            f"The policy module should give {seats} seats a row each of {', '.join(outputs)}; it gave {shapes}."
        )
    if not all(map(torch.equal, answers, again)):
        raise ConfigurationError(
            "The policy module answers the same question differently: take random numbers as an input instead."
        )
    alone = [
        _ask(module, {name: question[seat : seat + 1] for name, question in questions.items()})
        for seat in range(seats)
    ]
    for name, answer, *rows in zip(outputs, answers, *alone, strict=True):
        if not _near(answer, torch.cat(rows)):
            raise ConfigurationError(
                f"The policy module's {name} for a seat depends on the other seats: batch statistics in eval mode?"
            )
    return answers


def _acting(module: nn.Module) -> nn.Module:
    """The module as it acts, and a copy: exporting leaves traces in tied weights."""
    with translated("cannot be copied"):
        return copy.deepcopy(module).cpu().eval().requires_grad_(False)


def _tensors(module: nn.Module) -> Tensors:
    """Its parameters and buffers, tied ones once."""
    return {
        name: tensor.detach()
        for name, tensor in (*module.named_parameters(), *module.named_buffers())
    }


def _described(tensors: Tensors) -> list[Tensor]:
    return [described(name, tensor) for name, tensor in tensors.items()]


def _arrays(tensors: Tensors, graph: Graph) -> dict[str, np.ndarray]:
    return {
        weight.name: tensors[weight.name].cpu().contiguous().numpy() for weight in graph.weights
    }


def _plain(questions: Tensors) -> dict[str, np.ndarray]:
    return {name: question.numpy() for name, question in questions.items()}


def _questions(inputs: tuple[Tensor, ...], batch: int, generator: torch.Generator) -> Tensors:
    """Random inputs: bytes of all values, of other integers 0 and 1 only, since a graph does not say how many there are."""
    return {each.name: _random(each.dtype, (batch, *each.shape), generator) for each in inputs}


def _random(dtype: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    kind: torch.dtype = getattr(torch, dtype)
    if kind.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=kind)
    return torch.randint(256 if dtype == "uint8" else 2, shape, generator=generator).to(kind)


def _changed(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Other values that a module can bear: what was positive stays so, zeros become positive, integers change places."""
    if not tensor.is_floating_point():
        return tensor.flatten()[torch.randperm(tensor.numel(), generator=generator)].reshape(
            tensor.shape
        )
    factor, term = (
        torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype) for _ in range(2)
    )
    return tensor * (0.5 + factor) + 0.1 * term


def _ask(
    module: nn.Module, questions: Tensors, tensors: Tensors | None = None
) -> tuple[torch.Tensor, ...]:
    """The module's answers, with other tensors than its own if there are some."""
    observations, further = arguments(questions)
    with torch.no_grad(), translated("cannot answer"):
        answers = (
            functional_call(module, tensors, (observations,), further)
            if tensors
            else module(observations, **further)
        )
    answers = answers if isinstance(answers, tuple) else (answers,)
    if odd := [answer for answer in answers if not isinstance(answer, torch.Tensor)]:
        raise ConfigurationError(
            f"The policy module gave {type(odd[0]).__name__}, not tensors: one, or a tuple of them."
        )
    return answers


def _near(expected: torch.Tensor, found: torch.Tensor) -> bool:
    """Whether two answers are the same but for rounding, and are numbers."""
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return False
    if not expected.is_floating_point():
        return torch.equal(found, expected)
    largest = torch.where(expected.isfinite(), expected.abs(), 1.0).max()
    return torch.allclose(found, expected, rtol=0.0, atol=TOLERANCE * max(1.0, float(largest)))
