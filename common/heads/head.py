"""The interface of a head, and what it may ask of a spec."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np

from farflung.common.data.spec import Column, Spec
from farflung.common.process.errors import Refused

NO_METRICS: Mapping[str, float] = MappingProxyType({})
NO_COLUMNS: Mapping[str, np.ndarray] = MappingProxyType({})
LOG_PROBABILITY = Column("log_probability", "float32", (), "step")

At = int | tuple[np.ndarray, np.ndarray]
"""The place of a choice in its window: step t of every seat, or (steps [n], seats [n]) of some."""


class Choice(NamedTuple):
    """Actions, and the columns that the head adds to their rows."""

    actions: np.ndarray  # [n, *shape], the dtype of the action space
    columns: Mapping[str, np.ndarray] = NO_COLUMNS  # by name, [n, *shape]


class Chooser(Protocol):
    """Chooses actions, window after window.

    Noise is drawn for a whole window: drawing it step by step costs more than a step's arithmetic.
    """

    def begin(self, horizon: int, steps: int) -> None:
        """Draw the noise of a window of `horizon` steps; `steps` is the learner's step count."""

    def choose(self, at: At, outputs: Sequence[np.ndarray]) -> Choice:
        """Choose the actions of the seats at `at` from the graph's outputs [n, *shape]."""


class LegalChooser(Chooser, Protocol):
    """Chooses among legal actions, for a spec with a mask.

    One of several choices has an attribute `sizes`: a row of a mask has a legal one of each.
    """

    def choose_legal(self, at: At, outputs: Sequence[np.ndarray], legal: np.ndarray) -> Choice:
        """Choose as `choose` does, among the legal actions [n, A] bool: each row has one."""


class Head(Protocol):
    """One form in which a policy answers. `registry.register` makes a head of your own known.

    With an attribute `best` an exported file chooses the action itself: `argmax` of the first
    output, or `clip` of it to the bounds of the space. With an attribute `masks` that is true, its
    choosers are LegalChoosers where the spec has a mask.
    """

    outputs: tuple[str, ...]  # the first outputs of the acting graph, in this order

    def require(self, spec: Spec) -> None:
        """Refuse a spec unless its action space and graph outputs fit this head."""

    def columns(self, spec: Spec) -> tuple[Column, ...]:
        """Return the columns per step or per trajectory that this head can compute.

        A chooser returns those that the spec asks for, at each step. A column per trajectory keeps
        the value of its first step.
        """

    def explorer(self, spec: Spec, seats: int, index: int, rng: np.random.Generator) -> Chooser:
        """Return the chooser of an exploring actor; `index` is the actor's number in its run."""

    def greedy(self, spec: Spec) -> Chooser:
        """Return the chooser that always takes the best action."""

    def metrics(self, spec: Spec, steps: int) -> Mapping[str, float]:
        """Return the metrics of exploration after so many steps or rounds, for the screen."""


def require_outputs(spec: Spec, names: tuple[str, ...], kind: str, shape: tuple[int, ...]) -> None:
    """Refuse a spec unless its action space and first graph outputs have this form."""
    found = spec.graph.outputs[: len(names)]
    if (
        spec.action.kind != kind
        or tuple(output.name for output in found) != names
        or any(output.shape != shape for output in found)
    ):
        has = ", ".join(f"{output.name} {output.shape}" for output in found)
        raise Refused(
            "head",
            f"{spec.head} over a {spec.action.kind} space: it needs a {kind} space and the outputs "
            f"{', '.join(names)} {shape}, and the graph has {has or 'none'}",
        )
