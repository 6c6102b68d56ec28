"""A user's own environments; the variable TROUBLE says what goes wrong in one of them.

`--import habitats` registers them.
"""

import ctypes
import os
import threading
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv

TROUBLE = os.environ.get("TROUBLE", "")
EARLY = 44  # steps of this process until its trouble begins, in the middle of a window


class Moody(CartPoleEnv):
    """CartPole, until its trouble begins."""

    steps = 0  # of this process

    def step(self, action: Any) -> Any:
        Moody.steps += 1
        observation, *outcome = super().step(action)
        if Moody.steps == EARLY and TROUBLE == "raise once":
            raise RuntimeError("the pole has snapped")
        if Moody.steps >= EARLY and TROUBLE == "raise always":
            raise RuntimeError("there is no cart")
        if Moody.steps == EARLY and TROUBLE == "hang":
            threading.Event().wait()
        if Moody.steps == EARLY and TROUBLE == "hang with the lock":
            ctypes.PyDLL(None).sleep(600)
        if Moody.steps == EARLY and TROUBLE == "nan":
            observation = np.full_like(observation, np.nan)
        if Moody.steps >= EARLY and TROUBLE == "shape":
            observation = observation[:3]
        return observation, *outcome


class Wider(CartPoleEnv):
    """Another version of the environment, as installed on another machine."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.observation_space = gymnasium.spaces.Box(-1, 1, (7,), np.float32)


class Declared(gymnasium.Env):
    """Only declares its spaces: the loop of a robot owns its world."""

    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)


class Slow(CartPoleEnv):
    """CartPole with steps of 5 ms that use hardly any processor, as in some simulators."""

    def step(self, action: Any) -> Any:
        time.sleep(0.005)
        return super().step(action)


class Wide(CartPoleEnv):
    """CartPole seen through 16 KiB a step."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4096,), np.float32)

    def reset(self, **arguments: Any) -> Any:
        observation, told = super().reset(**arguments)
        return np.resize(observation, 4096), told

    def step(self, action: Any) -> Any:
        observation, *outcome = super().step(action)
        return np.resize(observation, 4096), *outcome


gymnasium.register("habitats/Slow-v0", Slow, max_episode_steps=500)
gymnasium.register("habitats/Wide-v0", Wide, max_episode_steps=500)
gymnasium.register(
    "habitats/Moody-v0", Wider if TROUBLE == "differ" else Moody, max_episode_steps=500
)
gymnasium.register("habitats/Declared-v0", Declared)
