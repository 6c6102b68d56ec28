"""The games of MinAtar (Young and Tian, 2019) as environments of Gymnasium.

MinAtar's own class draws chance from where `reset(seed=...)` began, for all episodes to come. Here
each episode draws from the stream that its world names, so rounds repeat to the bit.
"""

from typing import Any

import gymnasium
import numpy as np

GAMES = {
    "Asterix": "asterix",
    "Breakout": "breakout",
    "Freeway": "freeway",
    "Seaquest": "seaquest",
    "SpaceInvaders": "space_invaders",
}
LARGEST_SEED = 2**31


def register() -> None:
    """Make the games known as `MinAtar/Breakout-v0` and so on, with all six actions."""
    for name, game in GAMES.items():
        gymnasium.register(f"MinAtar/{name}-v0", f"{__name__}:Game", kwargs={"game": game})


class Game(gymnasium.Env):  # type: ignore[misc]  # it is untyped here
    """A game on a grid of 10 by 10 cells, with a plane of bits for each kind of object."""

    def __init__(self, game: str, sticky: float = 0.1, ramping: bool = True) -> None:
        try:
            from minatar import Environment  # it imports a library of plots
        except ImportError as error:
            raise gymnasium.error.DependencyNotInstalled("MinAtar is not installed") from error
        self._game = Environment(game, sticky_action_prob=sticky, difficulty_ramping=ramping)
        shape = tuple(self._game.state_shape())
        self.observation_space = gymnasium.spaces.Box(0, 1, shape, dtype=np.bool_)
        self.action_space = gymnasium.spaces.Discrete(self._game.num_actions())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; its chance is that of `np_random`."""
        super().reset(seed=seed)
        self._game.seed(int(self.np_random.integers(LARGEST_SEED)))
        self._game.last_action = 0  # else the first action could be one of the episode before
        self._game.reset()
        return self._game.state(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one action."""
        reward, terminated = self._game.act(int(action))
        return self._game.state(), float(reward), bool(terminated), False, {}
