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


class Slow(CartPoleEnv):
    """CartPole with steps of 5 ms that use hardly any processor, as in some simulators."""

    def step(self, action: Any) -> Any:
        time.sleep(0.005)
        return super().step(action)


class Moody(Slow):
    """Slow, until its trouble begins."""

    steps = 0  # of this process

    def step(self, action: Any) -> Any:
        Moody.steps += 1
        if TROUBLE in ("slow", "hang in a thread"):
            time.sleep(0.02)
            if TROUBLE != "slow" and threading.current_thread() is not threading.main_thread():
                threading.Event().wait()
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


class Dial(gymnasium.Env):
    """A dial with six places, to be set to one that wanders; a number, or (`screen`) a picture."""

    def __init__(self, screen: bool = False) -> None:
        box = gymnasium.spaces.Box
        self.observation_space = (
            box(0, 255, (36, 36), np.uint8) if screen else box(0, 6, (2,), np.float32)
        )
        self.action_space = gymnasium.spaces.Discrete(6)
        self._screen, self._place = screen, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._place = int(self.np_random.integers(6))
        return self._seen(0), {}

    def step(self, action: Any) -> Any:
        reward = float(action == self._place)
        self._place = (self._place + int(self.np_random.integers(-1, 2))) % 6
        return self._seen(int(action)), reward, self.np_random.random() < 0.05, False, {}

    def _seen(self, dial: int) -> Any:
        if not self._screen:
            return np.array([self._place, dial], np.float32)
        picture = np.zeros((36, 36), np.uint8)
        picture[6 * self._place : 6 * self._place + 6] = 200
        picture[:, 6 * dial : 6 * dial + 6] += 50
        return picture


gymnasium.register("habitats/Slow-v0", Slow, max_episode_steps=500)
gymnasium.register("habitats/Wide-v0", Wide, max_episode_steps=500)
gymnasium.register(
    "habitats/Moody-v0", Wider if TROUBLE == "differ" else Moody, max_episode_steps=500
)
gymnasium.register("habitats/Declared-v0", Declared)
gymnasium.register("habitats/Dial-v0", Dial, max_episode_steps=40)
