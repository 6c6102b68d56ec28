"""Heads of continuous actions that a tanh keeps within the bounds of their space.

A policy answers with numbers before the tanh; their tanh, scaled to the bounds, is the best action.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from farflung.common.data.spec import Column, Exploration, Space, Spec
from farflung.common.heads.gaussian import LOG_2_PI, bounds
from farflung.common.heads.head import (
    LOG_PROBABILITY,
    At,
    Choice,
    Chooser,
    require_outputs,
)
from farflung.common.process.errors import Refused

LARGEST_TANH = 1 - 2.0**-24  # the float32 below 1: its inverse is finite


class Scale:
    """The linear map from -1..1 to the bounds of a space of continuous actions."""

    def __init__(self, action: Space) -> None:
        self.low, self.high = bounds(action)
        low, high = self.low.astype(np.float64), self.high.astype(np.float64)
        self.center = ((high + low) / 2).astype(np.float32)  # [*shape]
        self.half = ((high - low) / 2).astype(np.float32)  # [*shape]
        # Of the map's slope, summed over an action's numbers
        self.log_half = float(np.log(self.half).sum())

    def actions(self, squashed: np.ndarray) -> np.ndarray:  # [n, *shape] in -1..1
        """Return actions within the bounds, in their dtype. Rounding never leads beyond them."""
        scaled = self.center + self.half * squashed
        found: np.ndarray = scaled.astype(self.low.dtype, copy=False).clip(self.low, self.high)
        return found

    def squashed(self, actions: np.ndarray) -> np.ndarray:  # [n, *shape] within the bounds
        """Return the numbers in -1..1 of which these are the actions, float32."""
        found: np.ndarray = ((actions - self.center) / self.half).astype(np.float32, copy=False)
        return found


class SquashedGaussianHead:
    """The mean and the logarithm of the deviation of a Gaussian, before a tanh."""

    outputs: tuple[str, ...] = ("mean", "log_std")
    best = "squash"

    def require(self, spec: Spec) -> None:
        """Refuse anything but a mean and a deviation for each number of a bounded action."""
        require_outputs(spec, self.outputs, "box", spec.action.shape)
        require_bounded_actions(spec.action)

    def columns(self, spec: Spec) -> tuple[Column, ...]:
        """Return the log-density of an action."""
        return (LOG_PROBABILITY,)

    def explorer(self, spec: Spec, seats: int, index: int, rng: np.random.Generator) -> Chooser:
        """Return a sampler, which takes a share of its actions anywhere in the space."""
        logs = LOG_PROBABILITY in spec.extras
        return SquashedGaussian(spec.action, spec.exploration, seats, rng, logs)

    def greedy(self, spec: Spec) -> Chooser:
        """Return the chooser of the mean; its log-density is the policy's."""
        return GreedySquashed(spec.action, LOG_PROBABILITY in spec.extras)

    def metrics(self, spec: Spec, steps: int) -> Mapping[str, float]:
        """Return the share of random actions."""
        return {"epsilon": spec.exploration.epsilon(steps)}


class DeterministicHead:
    """One action, before a tanh. Actors add Gaussian noise after it."""

    outputs: tuple[str, ...] = ("mean",)
    best = "squash"

    def require(self, spec: Spec) -> None:
        """Refuse anything but one number for each number of a bounded action."""
        require_outputs(spec, self.outputs, "box", spec.action.shape)
        require_bounded_actions(spec.action)

    def columns(self, spec: Spec) -> tuple[Column, ...]:
        """Return nothing: an action that noise took to a bound has no density."""
        return ()

    def explorer(self, spec: Spec, seats: int, index: int, rng: np.random.Generator) -> Chooser:
        """Return the chooser of the action with noise, or of any action for a share of them."""
        return NoisyAction(spec.action, spec.exploration, seats, rng)

    def greedy(self, spec: Spec) -> Chooser:
        """Return the chooser of the action itself."""
        return GreedySquashed(spec.action)

    def metrics(self, spec: Spec, steps: int) -> Mapping[str, float]:
        """Return the share of random actions."""
        return {"epsilon": spec.exploration.epsilon(steps)}


class Noise:
    """Normal numbers for each step of each seat, each like the one before it as far as asked.

    `next = correlation * last + sqrt(1 - correlation ** 2) * new` keeps the distribution of each
    number. Correlated ones lead farther from a start state (Eberhard et al., 2023).
    """

    def __init__(self, shape: tuple[int, ...], correlation: float, rng: np.random.Generator):
        self._shape, self._correlation, self._rng = shape, np.float32(correlation), rng
        self._last = rng.standard_normal(shape, dtype=np.float32) if correlation else None

    def window(self, horizon: int) -> np.ndarray:
        """Return the numbers of the next window, [H, N, *shape] float32."""
        noise = self._rng.standard_normal((horizon, *self._shape), dtype=np.float32)
        if self._last is None:
            return noise
        noise *= np.sqrt(1 - self._correlation**2)
        last = self._last
        for step in noise:
            step += self._correlation * last
            last = step
        self._last = last.copy()
        return noise


class Exploring:
    """Draws the noise of a window, and the steps at which seats take any action of the space."""

    def __init__(
        self, action: Space, exploration: Exploration, seats: int, rng: np.random.Generator
    ) -> None:
        self._scale, self._exploration, self._rng = Scale(action), exploration, rng
        self._seats = seats
        self._source = Noise((seats, *action.shape), exploration.correlation, rng)

    def begin(self, horizon: int, steps: int) -> None:
        """Draw the noise."""
        self._noise = self._source.window(horizon)  # [H, N, *shape] float32
        self._epsilon = self._exploration.epsilon(steps)
        self._explores = self._anywhere = None
        if self._epsilon:
            chances = self._rng.random((horizon, self._seats), dtype=np.float32)
            shape = (horizon, self._seats, *(1,) * (self._noise.ndim - 2))
            self._explores = (chances < self._epsilon).reshape(shape)  # [H, N, 1...] bool
            self._anywhere = uniform(self._noise)  # [H, N, *shape] float32, in -1..1

    def _mixed(self, at: At, squashed: np.ndarray) -> np.ndarray:  # [n, *shape] in -1..1
        """Return the actions, some of them any of the space."""
        if self._explores is None or self._anywhere is None:
            return squashed
        return np.where(self._explores[at], self._anywhere[at], squashed)


class SquashedGaussian(Exploring):
    """Draws an action around a mean and squashes it."""

    def __init__(
        self,
        action: Space,
        exploration: Exploration,
        seats: int,
        rng: np.random.Generator,
        logs: bool = False,
    ) -> None:
        super().__init__(action, exploration, seats, rng)
        self._logs = logs

    def choose(self, at: At, outputs: Sequence[np.ndarray]) -> Choice:
        """Choose from means and logarithms of deviations, both [n, *shape]."""
        mean, log_std = outputs[:2]
        drawn = mean + np.exp(log_std) * self._noise[at]
        squashed = self._mixed(at, np.tanh(drawn))
        actions = self._scale.actions(squashed)
        if not self._logs:
            return Choice(actions)
        if self._explores is not None:
            drawn = np.where(self._explores[at], unsquashed(squashed), drawn)
        return Choice(actions, {LOG_PROBABILITY.name: self._logged(drawn, mean, log_std)})

    def _logged(self, drawn: np.ndarray, mean: np.ndarray, log_std: np.ndarray) -> np.ndarray:
        """Return the log-density of the mixture of the policy and the whole space, [n]."""
        logs = log_density(drawn, mean, log_std) - self._scale.log_half
        if not self._epsilon:
            return logs
        numbers = math.prod(mean.shape[1:])
        anywhere = math.log(self._epsilon) - numbers * math.log(2) - self._scale.log_half
        rest = np.log1p(-self._epsilon) if self._epsilon < 1 else -np.inf
        found: np.ndarray = np.logaddexp(anywhere, rest + logs)
        return found


class NoisyAction(Exploring):
    """Takes an action with noise, in shares of half the space's range."""

    def choose(self, at: At, outputs: Sequence[np.ndarray]) -> Choice:
        """Choose from actions before the tanh, [n, *shape]."""
        noisy = np.tanh(outputs[0]) + np.float32(self._exploration.noise) * self._noise[at]
        return Choice(self._scale.actions(self._mixed(at, noisy.clip(-1, 1))))


class GreedySquashed:
    """Takes the tanh of the mean, scaled to the bounds."""

    def __init__(self, action: Space, logs: bool = False) -> None:
        self._scale, self._logs = Scale(action), logs

    def begin(self, horizon: int, steps: int) -> None:
        """Draw nothing."""

    def choose(self, at: At, outputs: Sequence[np.ndarray]) -> Choice:
        """Choose from means [n, *shape]."""
        mean = outputs[0]
        actions = self._scale.actions(np.tanh(mean))
        if not self._logs:
            return Choice(actions)
        logs = log_density(mean, mean, outputs[1]) - self._scale.log_half
        return Choice(actions, {LOG_PROBABILITY.name: logs})


def log_density(drawn: np.ndarray, mean: np.ndarray, log_std: np.ndarray) -> np.ndarray:
    """Return the log-density [n] of tanh(drawn), for Gaussians [n, *shape] before the tanh.

    log(1 - tanh(x)²) is 2 (log 2 - x - softplus(-2 x)): the first form is minus infinity from 9 on.
    """
    noise = (drawn - mean) * np.exp(-log_std)
    gaussian = -0.5 * (noise * noise + LOG_2_PI) - log_std
    slope = 2 * (math.log(2) - drawn - np.logaddexp(0, -2 * drawn))
    found: np.ndarray = (gaussian - slope).sum(axis=tuple(range(1, mean.ndim)))
    return found.astype(np.float32)


def unsquashed(squashed: np.ndarray) -> np.ndarray:
    """Return the numbers of which these are the tanh; of a bound, a large finite one."""
    found: np.ndarray = np.arctanh(squashed.clip(-LARGEST_TANH, LARGEST_TANH))
    return found


def uniform(noise: np.ndarray) -> np.ndarray:
    """Return numbers that are uniform in -1..1 for normal ones: twice their distribution less 1."""
    found = [math.erf(number / math.sqrt(2)) for number in noise.ravel().tolist()]
    return np.array(found, np.float32).reshape(noise.shape)


def require_bounded_actions(action: Space) -> None:
    """Refuse actions without a finite range, as they have no scale, and those of whole numbers."""
    with np.errstate(over="ignore"):
        ranges = (np.subtract(action.high, action.low)).astype(np.float32)
    if not action.dtype.startswith("float") or not np.isfinite(ranges).all() or (ranges <= 0).any():
        raise Refused(
            "head",
            f"a tanh scales actions to the bounds of their space, and these are {action.dtype} "
            f"from {_shown(action.low)} to {_shown(action.high)}: finite bounds are needed, the "
            "lower one below the upper one (--wrapper RescaleAction sets such)",
        )


def _shown(edges: tuple[float, ...]) -> str:
    return f"[{', '.join(f'{edge:g}' for edge in edges[:6])}{', …' if len(edges) > 6 else ''}]"
