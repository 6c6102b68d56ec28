"""Wrappers of ours around Gymnasium's environments, for specs to ask for by name."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

SCORE = "score"
NO_OPERATION = 0


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


class KeepNumbers(gymnasium.ObservationWrapper):  # type: ignore[misc]  # as above
    """Shows only some numbers of a vector, by index: a world that hides part of its state.

    `KeepNumbers:indices=[0,2]` leaves CartPole's positions and hides its velocities.
    """

    def __init__(self, environment: Any, indices: Sequence[int]) -> None:
        super().__init__(environment)
        space = environment.observation_space
        sound = isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1
        if not sound or not all(0 <= index < space.shape[0] for index in indices):
            raise ValueError(f"KeepNumbers takes indices of a vector, and {space} has no {indices}")
        self._indices = list(indices)
        low, high = space.low[self._indices], space.high[self._indices]
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=space.dtype)

    def observation(self, observation: Any) -> Any:
        """Return the numbers that are kept."""
        return observation[self._indices]


def atari(environment: Any, terminal_on_life_loss: bool = False, **options: Any) -> Any:
    """Return a game in Gymnasium's preprocessing (Machado et al., 2018), and whole in its score.

    The learner stacks its frames with --stack. With `terminal_on_life_loss` a lost life ends the
    episode; the next one goes on in the same game, as DQN had it (Mnih et al., 2015).
    """
    game = Score(gymnasium.wrappers.AtariPreprocessing(environment, **options))
    return Lives(game) if terminal_on_life_loss else game


class Score(gymnasium.Wrapper):  # type: ignore[misc]  # as above
    """Reports the `score` of a game at its end: the sum of its rewards as they are."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self._score = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a game."""
        self._score = 0.0
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one action."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._score += float(reward)
        if terminated or truncated:
            info = info | {SCORE: self._score}
        return observation, reward, terminated, truncated, info


class Lives(gymnasium.Wrapper):  # type: ignore[misc]  # as above
    """Ends the episode with each lost life; the game begins again only when it is over."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self._lives, self._over = 0, True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a game, or go on in it by an action without effect."""
        if not self._over and seed is None:
            observation, _, terminated, truncated, info = self.env.step(NO_OPERATION)
            self._over = terminated or truncated
        if self._over or seed is not None:
            observation, info = self.env.reset(seed=seed, options=options)
            self._over = False
        self._lives = self._left()
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one action."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._over = terminated or truncated
        before, self._lives = self._lives, self._left()
        return observation, reward, terminated or self._lives < before, truncated, info

    def _left(self) -> int:
        """Return the lives that are left in the game."""
        return int(self.unwrapped.ale.lives())


# The same preprocessing in ALE's own vector environment: one frame, raw rewards, no action FIRE.
VECTORISED = {
    "frameskip": 4,
    "stack_num": 1,
    "reward_clipping": False,
    "use_fire_reset": False,
    "num_threads": 1,  # an actor is one processor's work
}


class Frames(gymnasium.vector.VectorWrapper):  # type: ignore[misc]  # as above
    """Shows a frame [H, W] of each game where ALE's vector environment has a stack of one."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        one = environment.single_observation_space
        self.single_observation_space = gymnasium.spaces.Box(0, 255, one.shape[1:], one.dtype)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin all games; ALE takes seeds of 31 bits."""
        seeds = None
        if seed is not None:
            seeds = np.random.default_rng(seed).integers(2**31, size=self.num_envs)
        frames, info = self.env.reset(seed=seeds, options=options)
        return frames[:, 0], info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take one action in each game."""
        frames, rewards, terminated, truncated, info = self.env.step(actions)
        return frames[:, 0], rewards, terminated, truncated, info
