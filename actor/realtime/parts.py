"""The parts of a step at a fixed rate: what it did, and how long each of that took."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from farflung.actor.acting.policy import ActingPolicy
from farflung.actor.recording import Columns
from farflung.actor.worlds.world import Seat, Turn, World
from farflung.common.data.weights import Weights


class Parts(NamedTuple):
    """The seconds of one step, from when it was due."""

    woken: float  # it began so late
    environment: float
    inference: float
    ours: float  # the rest: records, windows, the swap of a session

    @property
    def total_s(self) -> float:
        """Return the seconds from when it was due to its end."""
        return sum(self)

    @property
    def cause(self) -> str:
        """Return the name of the part that took longest."""
        return max(self._fields, key=lambda name: float(getattr(self, name)))

    def __str__(self) -> str:
        """Return all parts in milliseconds, for a sentence."""
        return (
            f"woken {1000 * self.woken:.1f} ms late, environment {1000 * self.environment:.1f}, "
            f"inference {1000 * self.inference:.1f}, ours {1000 * self.ours:.1f}"
        )


class Stopwatch:
    """The time of one step by its parts."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.environment_s = self.inference_s = 0.0

    def restart(self) -> None:
        """Begin with another step."""
        self.environment_s = self.inference_s = 0.0

    def parts(self, late_s: float, took_s: float) -> Parts:
        """Return the parts of a step that began so late and took so long."""
        known_s = self.environment_s + self.inference_s
        return Parts(late_s, self.environment_s, self.inference_s, max(0.0, took_s - known_s))


class TimedWorld:
    """A world with a stopwatch at its steps."""

    def __init__(self, world: World, stopwatch: Stopwatch) -> None:
        self._world, self._stopwatch = world, stopwatch

    @property
    def seats(self) -> Mapping[str, tuple[Seat, ...]]:
        """The seats of each policy, by number."""
        return self._world.seats

    def reset(self) -> Turn:
        """Begin an episode everywhere."""
        return self._world.reset()

    def step(self, actions: Mapping[str, np.ndarray]) -> Turn:
        """Take the actions `[n, *shape]` of the due seats of each policy."""
        before = self._stopwatch.clock()
        turn = self._world.step(actions)
        self._stopwatch.environment_s += self._stopwatch.clock() - before
        return turn

    def close(self) -> None:
        """Release what the environments hold."""
        self._world.close()


class TimedPolicy:
    """An acting graph with a stopwatch at its answers."""

    def __init__(self, policy: ActingPolicy, stopwatch: Stopwatch) -> None:
        self._policy, self._stopwatch = policy, stopwatch

    def load(self, weights: Weights) -> None:
        """Answer by these weights from now on."""
        self._policy.load(weights)

    def answer(self, inputs: Columns) -> Sequence[np.ndarray]:
        """Return outputs [n, *shape] for observations by column."""
        before = self._stopwatch.clock()
        outputs = self._policy.answer(inputs)
        self._stopwatch.inference_s += self._stopwatch.clock() - before
        return outputs
