"""The heads of discrete actions: values with epsilon-greedy choice, and logits with sampling."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from farflung.common.data.spec import Column, Exploration, Spec
from farflung.common.heads.head import (
    LOG_PROBABILITY,
    NO_COLUMNS,
    NO_METRICS,
    At,
    Choice,
    Chooser,
    require_outputs,
)
from farflung.common.heads.masks import allowed, drawn
from farflung.common.heads.valued import VALUES, Valued


class QHead:
    """The value of each discrete action."""

    outputs: tuple[str, ...] = ("q",)
    best = "argmax"
    masks = True

    def require(self, spec: Spec) -> None:
        """Refuse anything but one value for each discrete action."""
        require_outputs(spec, self.outputs, "discrete", spec.action.sizes)

    def columns(self, spec: Spec) -> tuple[Column, ...]:
        """Return the log-probability of an action when it explores, and values of a step."""
        return LOG_PROBABILITY, *VALUES

    def explorer(self, spec: Spec, seats: int, index: int, rng: np.random.Generator) -> Chooser:
        """Return an epsilon-greedy chooser, each seat on its rung of the ladder."""
        exponents = rungs(spec.exploration, seats, index)
        logs = LOG_PROBABILITY in spec.extras
        make = EpsilonGreedy if spec.mask is None else LegalEpsilonGreedy
        chooser = make(spec.action.sizes[0], spec.exploration, exponents, rng, logs)
        return self._recording(spec, chooser)

    def greedy(self, spec: Spec) -> Chooser:
        """Return the chooser of the highest value; its probability is 1."""
        chooser = GreedyArgmax(_certain if LOG_PROBABILITY in spec.extras else None)
        return self._recording(spec, chooser)

    def _recording(self, spec: Spec, chooser: Chooser) -> Chooser:
        return Valued(chooser) if any(value in spec.extras for value in VALUES) else chooser

    def metrics(self, spec: Spec, steps: int) -> Mapping[str, float]:
        """Return epsilon as it is without the ladder."""
        return {"epsilon": spec.exploration.epsilon(steps)}


class LogitsHead:
    """The unnormalised log-probability of each discrete action."""

    outputs: tuple[str, ...] = ("logits",)
    best = "argmax"
    masks = True

    def require(self, spec: Spec) -> None:
        """Refuse anything but one logit for each discrete action."""
        require_outputs(spec, self.outputs, "discrete", spec.action.sizes)

    def columns(self, spec: Spec) -> tuple[Column, ...]:
        """Return the log-probability of an action."""
        return (LOG_PROBABILITY,)

    def explorer(self, spec: Spec, seats: int, index: int, rng: np.random.Generator) -> Chooser:
        """Return a sampler."""
        return Categorical(spec.action.sizes[0], seats, rng, LOG_PROBABILITY in spec.extras)

    def greedy(self, spec: Spec) -> Chooser:
        """Return the chooser of the highest logit; its log-probability is the policy's."""
        return GreedyArgmax(log_probabilities if LOG_PROBABILITY in spec.extras else None)

    def metrics(self, spec: Spec, steps: int) -> Mapping[str, float]:
        """Return nothing: the policy itself explores."""
        return NO_METRICS


class EpsilonGreedy:
    """Takes the highest value, or any action with probability epsilon."""

    def __init__(
        self,
        actions: int,
        exploration: Exploration,
        exponents: np.ndarray,  # [N] float64, of epsilon
        rng: np.random.Generator,
        logs: bool = False,
    ) -> None:
        self._actions, self._exploration, self._exponents = actions, exploration, exponents
        self._rng, self._logs = rng, logs

    def begin(self, horizon: int, steps: int) -> None:
        """Draw the steps at which each seat explores, and its actions there."""
        shape = (horizon, len(self._exponents))
        self._epsilon = self._exploration.epsilon(steps) ** self._exponents  # [N] float64
        self._explores = self._rng.random(shape, dtype=np.float32) < self._epsilon  # [H, N] bool
        self._draw(shape)

    def _draw(self, shape: tuple[int, int]) -> None:
        self._any = self._rng.integers(self._actions, size=shape)  # [H, N] int64

    def choose(self, at: At, outputs: Sequence[np.ndarray]) -> Choice:
        """Choose from values [n, A]."""
        actions: np.ndarray = outputs[0].argmax(axis=1)
        best = actions.copy() if self._logs else actions
        np.copyto(actions, self._any[at], where=self._explores[at])
        if not self._logs:
            return Choice(actions)
        return Choice(actions, self._logged(at, actions == best, self._actions))

    def _logged(self, at: At, best: np.ndarray, count: int | np.ndarray) -> dict[str, np.ndarray]:
        """Return the log-probability of actions out of so many; `best` [n] marks the best ones."""
        epsilon = self._epsilon[at[1]] if isinstance(at, tuple) else self._epsilon
        return {LOG_PROBABILITY.name: np.log(best * (1 - epsilon) + epsilon / count)}


class LegalEpsilonGreedy(EpsilonGreedy):
    """Takes the highest value among the legal actions, or any of them with probability epsilon."""

    def _draw(self, shape: tuple[int, int]) -> None:
        self._chances = self._rng.random(shape)  # [H, N] float64: which actions are legal follows

    def choose_legal(self, at: At, outputs: Sequence[np.ndarray], legal: np.ndarray) -> Choice:
        """Choose from values [n, A]."""
        best = allowed(outputs[0], legal).argmax(axis=1)
        actions = np.where(self._explores[at], drawn(legal, self._chances[at]), best)
        if not self._logs:
            return Choice(actions)
        return Choice(actions, self._logged(at, actions == best, legal.sum(axis=1)))


class Categorical:
    """Draws an action by its logit: the highest after Gumbel noise."""

    def __init__(
        self, actions: int, seats: int, rng: np.random.Generator, logs: bool = False
    ) -> None:
        self._shape, self._rng, self._logs = (seats, actions), rng, logs

    def begin(self, horizon: int, steps: int) -> None:
        """Draw the noise."""
        waits = self._rng.standard_exponential((horizon, *self._shape), dtype=np.float32)
        np.maximum(waits, np.finfo(np.float32).tiny, out=waits)  # 0 has no logarithm
        self._noise = -np.log(waits)  # [H, N, A], Gumbel: five times cheaper than rng.gumbel

    def choose(self, at: At, outputs: Sequence[np.ndarray]) -> Choice:
        """Choose from logits [n, A]."""
        logits = outputs[0]
        actions: np.ndarray = (logits + self._noise[at]).argmax(axis=1)
        if not self._logs:
            return Choice(actions)
        return Choice(actions, {LOG_PROBABILITY.name: log_probabilities(logits, actions)})

    def choose_legal(self, at: At, outputs: Sequence[np.ndarray], legal: np.ndarray) -> Choice:
        """Choose from logits [n, A]; those of other actions count as minus infinity."""
        return self.choose(at, [allowed(outputs[0], legal)])


class GreedyArgmax:
    """Takes the action with the highest value or logit."""

    def __init__(self, logs: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None) -> None:
        self._logs = logs

    def begin(self, horizon: int, steps: int) -> None:
        """Draw nothing."""

    def choose(self, at: At, outputs: Sequence[np.ndarray]) -> Choice:
        """Choose from values or logits [n, A]."""
        actions: np.ndarray = outputs[0].argmax(axis=1)
        logs = self._logs
        return Choice(
            actions, {LOG_PROBABILITY.name: logs(outputs[0], actions)} if logs else NO_COLUMNS
        )

    def choose_legal(self, at: At, outputs: Sequence[np.ndarray], legal: np.ndarray) -> Choice:
        """Choose from values or logits [n, A] of the legal actions."""
        return self.choose(at, [allowed(outputs[0], legal)])


def rungs(exploration: Exploration, seats: int, index: int) -> np.ndarray:
    """Return each seat's exponent of epsilon, [N] float64: 1, or 1 to 8 (Horgan et al., 2018)."""
    if exploration.ladder < 2:
        return np.ones(seats)
    rung = (index * seats + np.arange(seats)) % exploration.ladder
    return 1 + 7 * rung / (exploration.ladder - 1)


def log_probabilities(logits: np.ndarray, actions: np.ndarray) -> np.ndarray:  # [n, A], [n]
    """Return the log-probability of each row's action, [n]."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    total = np.exp(shifted).sum(axis=1)
    logs: np.ndarray = shifted[np.arange(len(actions)), actions] - np.log(total)
    return logs


def _certain(values: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return np.zeros(len(actions), np.float32)
