"""The head of continuous actions: a Gaussian around a mean, clipped to the space."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from farflung.common.data.spec import Column, Space, Spec
from farflung.common.heads.head import (
    LOG_PROBABILITY,
    NO_COLUMNS,
    NO_METRICS,
    At,
    Choice,
    Chooser,
    require_outputs,
)

UNCLIPPED_ACTIONS = "unclipped_actions"
LOG_2_PI = math.log(2 * math.pi)


class GaussianHead:
    """The mean and the logarithm of the standard deviation of a continuous action."""

    outputs: tuple[str, ...] = ("mean", "log_std")
    best = "clip"

    def require(self, spec: Spec) -> None:
        """Refuse anything but a mean and a deviation for each number of a continuous action."""
        require_outputs(spec, self.outputs, "box", spec.action.shape)

    def columns(self, spec: Spec) -> tuple[Column, ...]:
        """Return the action before clipping, and its log-density: the clipped one has none."""
        action = spec.action
        return LOG_PROBABILITY, Column(UNCLIPPED_ACTIONS, action.dtype, action.shape, "step")

    def explorer(self, spec: Spec, seats: int, index: int, rng: np.random.Generator) -> Chooser:
        """Return a sampler."""
        return Gaussian(spec.action, seats, rng, self._recorded(spec))

    def greedy(self, spec: Spec) -> Chooser:
        """Return the chooser of the mean."""
        return GreedyMean(spec.action, self._recorded(spec))

    def metrics(self, spec: Spec, steps: int) -> Mapping[str, float]:
        """Return nothing: the policy itself explores."""
        return NO_METRICS

    def _recorded(self, spec: Spec) -> bool:
        return any(extra in self.columns(spec) for extra in spec.extras)


class Gaussian:
    """Draws an action around a mean and clips it to the space."""

    def __init__(
        self, action: Space, seats: int, rng: np.random.Generator, recorded: bool = False
    ) -> None:
        self._low, self._high = bounds(action)
        self._shape, self._rng, self._recorded = (seats, *action.shape), rng, recorded

    def begin(self, horizon: int, steps: int) -> None:
        """Draw the noise, [H, N, *shape]."""
        self._noise = self._rng.standard_normal((horizon, *self._shape), dtype=np.float32)

    def choose(self, at: At, outputs: Sequence[np.ndarray]) -> Choice:
        """Choose from means and logarithms of deviations, both [n, *shape]."""
        (mean, log_std), noise = outputs[:2], self._noise[at]
        drawn = mean + np.exp(log_std) * noise
        actions: np.ndarray = drawn.clip(self._low, self._high)
        return Choice(actions, _columns(drawn, noise, log_std) if self._recorded else NO_COLUMNS)


class GreedyMean:
    """Takes the mean action, clipped to the space."""

    def __init__(self, action: Space, recorded: bool = False) -> None:
        self._low, self._high = bounds(action)
        self._recorded = recorded

    def begin(self, horizon: int, steps: int) -> None:
        """Draw nothing."""

    def choose(self, at: At, outputs: Sequence[np.ndarray]) -> Choice:
        """Choose from means and logarithms of deviations, both [n, *shape]."""
        mean, log_std = outputs[:2]
        actions: np.ndarray = mean.clip(self._low, self._high)
        noise = np.zeros_like(mean)
        return Choice(actions, _columns(mean, noise, log_std) if self._recorded else NO_COLUMNS)


def bounds(action: Space) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest action [*shape] of a continuous space."""
    low, high = (
        np.asarray(edge, action.dtype).reshape(action.shape) for edge in (action.low, action.high)
    )
    return low, high


def _columns(
    drawn: np.ndarray, noise: np.ndarray, log_std: np.ndarray
) -> dict[str, np.ndarray]:  # all [n, *shape]
    """Return the unclipped actions and their log-density: the sum over an action's numbers."""
    densities = -0.5 * (noise * noise + LOG_2_PI) - log_std
    logs = densities.sum(axis=tuple(range(1, densities.ndim)))  # [n]
    return {LOG_PROBABILITY.name: logs, UNCLIPPED_ACTIONS: drawn}
