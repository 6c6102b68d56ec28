"""Wrappers of ours around Gymnasium's environments, for specs to ask for by name."""

from typing import Any

import gymnasium


class SuccessFromReturn(gymnasium.Wrapper):  # type: ignore[misc]  # it is untyped here
    """Reports `is_success`: true if the return of the episode so far is high enough.

    It is for worlds that tell success by reward alone, such as FrozenLake. Each step has it,
    because a limit of steps around this wrapper may end the episode.
    """

    def __init__(self, environment: Any, at_least: float = 1.0) -> None:
        super().__init__(environment)
        self._at_least = float(at_least)
        self._total = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._total = 0.0
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one action; add the verdict to the info."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._total += float(reward)
        verdict = {"is_success": self._total >= self._at_least}
        return observation, reward, terminated, truncated, info | verdict
