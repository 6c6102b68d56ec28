"""The world of own_loop.py as a registered environment.

Run `learner --env CartOnLine-v0 --import own_world`. The learner reads its spaces, and
local actors can evaluate in it. A simulator that is too heavy for that needs only its two spaces
here.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from own_loop import PUSHES, Cart


class CartOnLine(gymnasium.Env[np.ndarray, int]):
    """The same cart, stepped from outside."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(len(PUSHES))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start with a new cart."""
        super().reset(seed=seed)
        self._cart = Cart(self.np_random)
        return self._look(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Push the cart once."""
        reward, fell, late = self._cart.push(action)
        return self._look(), reward, fell, late, {}

    def _look(self) -> np.ndarray:
        return np.array(self._cart.look(), np.float32)


gymnasium.register("CartOnLine-v0", CartOnLine)
