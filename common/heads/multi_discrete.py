"""The head of several discrete choices at once: their logits, one after the other."""

from collections.abc import Mapping, Sequence

import numpy as np

from farflung.common.data.spec import Column, Space, Spec
from farflung.common.heads.discrete import log_probabilities
from farflung.common.heads.head import (
    LOG_PROBABILITY,
    NO_COLUMNS,
    NO_METRICS,
    At,
    Choice,
    Chooser,
    require_outputs,
)
from farflung.common.heads.masks import allowed


class MultiLogitsHead:
    """The unnormalised log-probabilities of several choices, each independent of the others."""

    outputs: tuple[str, ...] = ("logits",)
    best = "argmax of each"
    masks = True

    def require(self, spec: Spec) -> None:
        """Refuse anything but one logit for each possibility of each choice, in one row."""
        require_outputs(spec, self.outputs, "multidiscrete", (sum(spec.action.sizes),))

    def columns(self, spec: Spec) -> tuple[Column, ...]:
        """Return the log-probability of all choices together."""
        return (LOG_PROBABILITY,)

    def explorer(self, spec: Spec, seats: int, index: int, rng: np.random.Generator) -> Chooser:
        """Return a sampler."""
        return MultiCategorical(spec.action, seats, rng, LOG_PROBABILITY in spec.extras)

    def greedy(self, spec: Spec) -> Chooser:
        """Return the chooser of each choice's highest logit."""
        return GreedyOfEach(spec.action, LOG_PROBABILITY in spec.extras)

    def metrics(self, spec: Spec, steps: int) -> Mapping[str, float]:
        """Return nothing: the policy itself explores."""
        return NO_METRICS


class GreedyOfEach:
    """Takes the highest logit of each choice."""

    def __init__(self, action: Space, logs: bool = False) -> None:
        self.sizes = action.sizes  # of the parts of a mask, in each of which one must be legal
        self._bounds = [0, *np.cumsum(action.sizes).tolist()]
        self._shape, self._dtype, self._logs = action.shape, action.dtype, logs

    def begin(self, horizon: int, steps: int) -> None:
        """Draw nothing."""

    def choose(self, at: At, outputs: Sequence[np.ndarray]) -> Choice:
        """Choose from logits [n, sum of the sizes]."""
        return self.best(outputs[0], outputs[0])

    def choose_legal(self, at: At, outputs: Sequence[np.ndarray], legal: np.ndarray) -> Choice:
        """Choose from logits [n, sum of the sizes]; those that are not legal are minus infinity."""
        return self.choose(at, [allowed(outputs[0], legal)])

    def best(self, values: np.ndarray, logits: np.ndarray) -> Choice:
        """Return the choices of the highest values, with their log-probability by the logits."""
        bounds = list(zip(self._bounds, self._bounds[1:], strict=False))
        chosen = [values[:, first:end].argmax(axis=1) for first, end in bounds]
        actions = np.stack(chosen, axis=1).astype(self._dtype).reshape(-1, *self._shape)
        if not self._logs:
            return Choice(actions, NO_COLUMNS)
        logs = [
            log_probabilities(logits[:, first:end], each)
            for (first, end), each in zip(bounds, chosen, strict=True)
        ]
        return Choice(actions, {LOG_PROBABILITY.name: np.sum(logs, axis=0)})


class MultiCategorical(GreedyOfEach):
    """Draws each choice by its logits: the highest after Gumbel noise."""

    def __init__(
        self, action: Space, seats: int, rng: np.random.Generator, logs: bool = False
    ) -> None:
        super().__init__(action, logs)
        self._rng, self._width = rng, (seats, self._bounds[-1])

    def begin(self, horizon: int, steps: int) -> None:
        """Draw the noise."""
        waits = self._rng.standard_exponential((horizon, *self._width), dtype=np.float32)
        np.maximum(waits, np.finfo(np.float32).tiny, out=waits)  # 0 has no logarithm
        self._noise = -np.log(waits)  # [H, N, sum of the sizes]

    def choose(self, at: At, outputs: Sequence[np.ndarray]) -> Choice:
        """Choose from logits [n, sum of the sizes]."""
        return self.best(outputs[0] + self._noise[at], outputs[0])
