"""Runs with a policy, made without training, and what their environments show."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from farflung.actor.worlds import gymnasium
from farflung.common.data.spec import Spec
from farflung.learner.algorithms.r2d2_settings import R2D2Settings
from farflung.learner.storage import policies
from support import worlds

assert worlds

RUNS: dict[str, dict[str, Any]] = {
    "plain": {"environment": "CartPole-v1"},
    "parts": {"environment": "toys/Parts-v0"},
    "stacked": {"environment": "toys/Picture-v0", "stack": 4, "capacity": 100},
    "recurrent": {
        "environment": "CartPole-v1",
        "algorithm": "r2d2",
        "settings": R2D2Settings(hidden=(4,), units=8, burn_in=8),
    },
    "own": {"environment": "CartPole-v1", "model": "own_algorithm:network"},
}


def observations(run: Path, count: int) -> tuple[list[Any], list[bool]]:
    """Return observations of a run's environment under random actions, and where episodes begin."""
    environment = gymnasium.make(policies.read_spec(run).world)
    environment.action_space.seed(1)
    seen, begins = [], []
    observation, _ = environment.reset(seed=1)
    begins.append(True)
    while len(seen) < count:
        seen.append(observation)
        observation, _, ended, cut, _ = environment.step(environment.action_space.sample())
        begins.append(ended or cut)
        if ended or cut:
            observation, _ = environment.reset()
    return seen, begins[:count]


def inputs(spec: Spec, seen: Sequence[Any], begins: Sequence[bool]) -> dict[str, np.ndarray]:
    """Return the inputs of an exported file for observations of the environment."""
    feeds = {}
    for key, space in spec.observation.items():
        frames = [np.asarray(one[key] if key else one, space.dtype) for one in seen]
        name = f"observations.{key}" if key else "observations"
        feeds[name] = stacked(frames, begins, spec.stack) if spec.stack > 1 else np.stack(frames)
    return feeds


def stacked(frames: Sequence[np.ndarray], begins: Sequence[bool], stack: int) -> np.ndarray:
    """Return the newest frames of each observation, as the documentation says to make them."""
    found, newest = [], list[np.ndarray]()
    for frame, begun in zip(frames, begins, strict=True):
        newest = [frame] * stack if begun else [*newest[1:], frame]
        found.append(np.stack(newest))
    return np.stack(found)
