"""From what a policy answers to what a seat does: sampling and exploration, one class for each head.

Random numbers are drawn for a whole window at once, since a draw for a single step costs more than the step's arithmetic.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from farflung.common.data.spec import Exploration, Space, Spec
from farflung.common.process.errors import Refused


class Explorer(Protocol):
    """Chooses for all seats. `begin` comes before each window, `choose` with t = 0, 1, ... below its horizon."""

    def begin(self, horizon: int, steps: int) -> None:
        """Draw for a window of so many vector steps, the learner having counted so many environment steps."""

    def choose(self, t: int, outputs: Sequence[np.ndarray]) -> np.ndarray:
        """Actions [N, *shape] of the action space, given the outputs of the graph at vector step t of the window."""


def explorer(spec: Spec, seats: int, index: int, rng: np.random.Generator) -> Explorer:
    """The explorer of an actor's seats; `index` says which actor of the run it is, for the ladder."""
    require_head(spec)
    match spec.head:
        case "q":
            return EpsilonGreedy(
                spec.action.sizes[0], spec.exploration, rungs(spec.exploration, seats, index), rng
            )
        case "logits":
            return Categorical(spec.action.sizes[0], seats, rng)
        case "gaussian":
            return Gaussian(spec.action, seats, rng)


def greedy(spec: Spec) -> Explorer:
    """The likeliest or most valued action always: how a policy is evaluated."""
    require_head(spec)
    return Mean(spec.action) if spec.head == "gaussian" else Highest()


def require_head(spec: Spec) -> None:
    """Refuse a spec whose graph does not answer in the form that its head and its action space promise."""
    names = {"q": ("q",), "logits": ("logits",), "gaussian": ("mean", "log_std")}[spec.head]
    kind, shape = (
        ("box", spec.action.shape) if spec.head == "gaussian" else ("discrete", spec.action.sizes)
    )
    outputs = spec.graph.outputs[: len(names)]
    if (
        spec.action.kind != kind
        or tuple(output.name for output in outputs) != names
        or any(output.shape != shape for output in outputs)
    ):
        found = ", ".join(f"{output.name} {output.shape}" for output in outputs)
        raise Refused(
            "head",
            f"{spec.head} over a {spec.action.kind} space wants {', '.join(names)} {shape}, the graph has {found}",
        )


def rungs(exploration: Exploration, seats: int, index: int) -> np.ndarray:
    """The exponent [N] float64 that each seat puts on epsilon: 1, or 1 to 8 along the ladder (Horgan et al., 2018)."""
    if exploration.ladder < 2:
        return np.ones(seats)
    rung = (index * seats + np.arange(seats)) % exploration.ladder
    return 1 + 7 * rung / (exploration.ladder - 1)


class EpsilonGreedy:
    """The most valued action, or with probability epsilon any."""

    def __init__(
        self,
        actions: int,
        exploration: Exploration,
        exponents: np.ndarray,
        rng: np.random.Generator,
    ) -> None:
        self._actions = actions
        self._exploration = exploration
        self._exponents = exponents  # [N] float64
        self._rng = rng

    def begin(self, horizon: int, steps: int) -> None:
        """Draw which seats explore at which step, and what they do then."""
        shape = (horizon, len(self._exponents))
        epsilon = self._exploration.epsilon(steps) ** self._exponents  # [N] float64
        self._explores = self._rng.random(shape, dtype=np.float32) < epsilon  # [H, N] bool
        self._any = self._rng.integers(self._actions, size=shape)  # [H, N] int64

    def choose(self, t: int, outputs: Sequence[np.ndarray]) -> np.ndarray:
        """Actions [N] int64 given values [N, A] float32."""
        actions: np.ndarray = outputs[0].argmax(axis=1)
        np.copyto(actions, self._any[t], where=self._explores[t])
        return actions


class Categorical:
    """An action drawn by its logit: the highest one after Gumbel noise."""

    def __init__(self, actions: int, seats: int, rng: np.random.Generator) -> None:
        self._shape = (seats, actions)
        self._rng = rng

    def begin(self, horizon: int, steps: int) -> None:
        """Draw the noise."""
        waits = self._rng.standard_exponential((horizon, *self._shape), dtype=np.float32)
        np.maximum(
            waits, np.finfo(np.float32).tiny, out=waits
        )  # a wait of exactly 0 has no logarithm
        self._noise = -np.log(
            waits
        )  # [H, N, A] float32, Gumbel: five times cheaper than rng.gumbel

    def choose(self, t: int, outputs: Sequence[np.ndarray]) -> np.ndarray:
        """Actions [N] int64 given logits [N, A] float32."""
        actions: np.ndarray = (outputs[0] + self._noise[t]).argmax(axis=1)
        return actions


class Gaussian:
    """An action drawn around a mean, clipped to the space."""

    def __init__(self, action: Space, seats: int, rng: np.random.Generator) -> None:
        self._low, self._high = bounds(action)
        self._shape = (seats, *action.shape)
        self._rng = rng

    def begin(self, horizon: int, steps: int) -> None:
        """Draw the noise."""
        self._noise = self._rng.standard_normal(
            (horizon, *self._shape), dtype=np.float32
        )  # [H, N, *shape]

    def choose(self, t: int, outputs: Sequence[np.ndarray]) -> np.ndarray:
        """Actions [N, *shape] given means and logarithms of deviations [N, *shape] float32."""
        mean, log_std = outputs[:2]
        actions: np.ndarray = (mean + np.exp(log_std) * self._noise[t]).clip(self._low, self._high)
        return actions


class Highest:
    """The action with the highest value or logit."""

    def begin(self, horizon: int, steps: int) -> None:
        """Nothing is drawn."""

    def choose(self, t: int, outputs: Sequence[np.ndarray]) -> np.ndarray:
        """Actions [N] int64 given values or logits [N, A] float32."""
        actions: np.ndarray = outputs[0].argmax(axis=1)
        return actions


class Mean:
    """The mean action, clipped to the space."""

    def __init__(self, action: Space) -> None:
        self._low, self._high = bounds(action)

    def begin(self, horizon: int, steps: int) -> None:
        """Nothing is drawn."""

    def choose(self, t: int, outputs: Sequence[np.ndarray]) -> np.ndarray:
        """Actions [N, *shape] given means [N, *shape] float32."""
        actions: np.ndarray = outputs[0].clip(self._low, self._high)
        return actions


def bounds(action: Space) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest action [*shape] of a continuous space."""
    low, high = (
        np.asarray(edge, action.dtype).reshape(action.shape) for edge in (action.low, action.high)
    )
    return low, high
