"""Shared by the arms, in any environment: their words, one JSON line, and greedy CartPoles."""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

SOLVED, EPISODES, EVALUATE_EVERY, LIMIT = 475.0, 20, 2_000, 500_000
STEPS_PER_UPDATE, BATCH, HIDDEN, WARMUP = 4, 128, (128, 128), 1_000


def words(*flags: str) -> argparse.Namespace:
    """Return the row that is asked for, its seed, and whether a short run will do."""
    parser = argparse.ArgumentParser()
    parser.add_argument("row")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--short", action="store_true")
    for flag in flags:
        parser.add_argument(flag, action="store_true")
    return parser.parse_args()


def say(**figures: object) -> None:
    """Print the line."""
    print(json.dumps(figures), flush=True)


def greedy_mean(choose: Callable[[Any], Any], seed: int) -> float:
    """Return the mean return of 20 episodes; `choose` takes [n, 4] float32, returns n actions."""
    import gymnasium
    import numpy as np

    worlds = [gymnasium.make("CartPole-v1") for _ in range(EPISODES)]
    seen = {n: world.reset(seed=1000 + 100 * seed + n)[0] for n, world in enumerate(worlds)}
    total = 0.0
    while seen:
        actions = np.asarray(choose(np.stack(list(seen.values())))).reshape(len(seen))
        for number, action in zip(list(seen), actions, strict=True):
            seen[number], reward, terminated, truncated, _ = worlds[number].step(int(action))
            total += float(reward)
            if terminated or truncated:
                del seen[number]
    return total / EPISODES


class Counted:
    """Updates and environment steps of a learner between two moments, by its own counters."""

    def __init__(self) -> None:
        self._looks: list[tuple[float, int, int]] = []

    def look(self, updates: int, steps: int) -> None:
        """Note the time and the counters."""
        self._looks.append((time.perf_counter(), updates, steps))

    def say(self) -> None:
        """Print the updates per second, and what was counted."""
        (began, first, before), (ended, last, after) = self._looks[0], self._looks[-1]
        updates, steps = last - first, after - before
        say(value=updates / (ended - began), updates=updates, steps=steps)


def per_second(work: Callable[[], object], seconds: float) -> float:
    """Return how many times a second the work is done."""
    work()
    times, began = 0, time.perf_counter()
    while (taken := time.perf_counter() - began) < seconds:
        work()
        times += 1
    return times / taken
