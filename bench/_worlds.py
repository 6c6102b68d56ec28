"""An environment whose step takes as long as it is told, for actors: `--import bench._worlds`.

It imports no torch: actors have none.
"""

import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

LATENCY = "bench/Latency-v0"
EPISODE = 100  # steps


def take(seconds: float, *, burns: bool) -> None:
    """Let so much time pass: asleep, as for a simulator or robot elsewhere, or at work.

    Work is processor time of this thread, so that it takes longer where processors are shared.
    """
    if not burns:
        time.sleep(seconds)
        return
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Latency(gymnasium.Env):
    """Four numbers to see, two actions, episodes of 100 steps of `latency_ms` each."""

    observation_space = spaces.Box(-1, 1, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, latency_ms: float = 20.0, burns: bool = False) -> None:
        self._latency_s, self._burns, self._step = latency_ms / 1000, burns, 0
        self._seen = np.zeros((EPISODE + 1, 4), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, at once."""
        super().reset(seed=seed)
        self._step = 0
        # Drawn at once, so that a step takes its time and no more.
        self._seen = self.np_random.uniform(-1, 1, self._seen.shape).astype(np.float32)
        return self._seen[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take the time; the reward is for the first action."""
        take(self._latency_s, burns=self._burns)
        self._step += 1
        return self._seen[self._step], float(action == 0), self._step == EPISODE, False, {}


gymnasium.register(LATENCY, entry_point=Latency)
