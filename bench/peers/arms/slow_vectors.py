"""gymnasium's and Stable-Baselines3's processes of slow environments: 32 of them ÷ 32 × one."""

import sys
import time
from pathlib import Path

import numpy as np
from _said import say, words

sys.path.insert(0, str(Path(__file__).parents[3]))  # for bench._worlds, which needs gymnasium only

from bench._worlds import Latency

LATENCY_MS = 5.0


def slow() -> Latency:
    """Return one environment."""
    return Latency(LATENCY_MS)


def per_second(count: int, steps: int, sb3: bool) -> float:
    """Return the steps per second of so many environments, each in a process."""
    if sb3:
        from stable_baselines3.common.vec_env import SubprocVecEnv

        world = SubprocVecEnv([slow] * count)
    else:
        from gymnasium.vector import AsyncVectorEnv

        world = AsyncVectorEnv([slow] * count)
    world.reset()
    actions = np.zeros(count, np.int64)
    world.step(actions)
    began = time.perf_counter()
    for _ in range(steps):
        world.step(actions)
    taken = time.perf_counter() - began
    world.close()
    return count * steps / taken


def main() -> None:
    """Measure one, and many."""
    asked = words("--sb3")
    count, steps = (4, 20) if asked.short else (32, 300)
    one = per_second(1, steps, asked.sb3)
    say(value=per_second(count, steps, asked.sb3) / (count * one))


if __name__ == "__main__":
    main()
