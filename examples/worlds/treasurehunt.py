"""Treasure hunt: agents in a walled grid collect the gems that appear there.

The outer ring of the 10 x 10 grid is wall. Before each turn, a gem appears in each empty cell with
probability 0.02. Then the agents move one after the other, in the order of their numbers, by one
cell each. An agent that reaches a gem takes it (+10), one that walks into a wall stays and pays
(-1), and one that walks into another agent stays. An episode has 50 turns.

An agent sees the 5 x 5 cells around it, and is rewarded for its own gems alone. The rewards of
three agents in an episode add up to about 190 at random, and to 490 if they are `greedy`.
"""

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from pettingzoo import ParallelEnv, register

MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # up, down, left, right, as row and column
WALL, GEM, AGENT = range(3)  # the channels of the grid and of an observation
TAKES, BUMPS = 10.0, -1.0  # rewards
COLOURS = np.array([(235, 225, 200), (90, 90, 90), (40, 170, 90), (200, 60, 50)], np.uint8)
PIXELS = 24  # each side of a cell in a picture


class TreasureHunt(ParallelEnv):
    """The world. All agents choose at once; they move in the order of their numbers."""

    metadata: ClassVar[dict[str, Any]] = {
        "name": "treasurehunt_v0",
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 5,
    }

    def __init__(
        self,
        agents: int = 3,
        size: int = 10,
        turns: int = 50,
        chance: float = 0.02,
        sight: int = 2,
        render_mode: str | None = None,
    ) -> None:
        self.possible_agents = [f"agent_{number}" for number in range(agents)]
        self.agents: list[str] = []
        side = 2 * sight + 1
        self.observation_spaces = {
            agent: spaces.Box(0, 1, (3, side, side), np.float32) for agent in self.possible_agents
        }
        self.action_spaces = {agent: spaces.Discrete(len(MOVES)) for agent in self.possible_agents}
        self.render_mode = render_mode
        self._size, self._turns, self._chance, self._sight = size, turns, chance, sight
        self._random, _ = seeding.np_random()

    def observation_space(self, agent: str) -> spaces.Box:
        """Return the space of views: walls, gems and other agents, as ones in three channels."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        """Return the space of moves: up, down, left, right."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        """Put the agents into different cells, and let the first gems appear."""
        if seed is not None:
            self._random, _ = seeding.np_random(seed)
        self.agents, self._turn = self.possible_agents[:], 0
        # More wall around the ring, so that a view from the outermost cell is whole.
        edge, side = self._sight, self._size + 2 * self._sight
        self.grid = np.zeros((3, side, side), np.float32)
        self.grid[WALL] = 1
        self.grid[WALL, edge + 1 : -edge - 1, edge + 1 : -edge - 1] = 0
        cells = self._random.permutation(np.argwhere(self.grid[WALL] == 0))
        self.places = {
            agent: (int(row), int(column))
            for agent, (row, column) in zip(self.agents, cells, strict=False)
        }
        for place in self.places.values():
            self.grid[AGENT][place] = 1
        self._grow()
        return self._views(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[dict[str, Any], ...]:
        """Move every agent, let gems appear, and end the episode after its last turn."""
        self._turn += 1
        agents, late = self.agents, self._turn >= self._turns
        rewards = {agent: self._move(agent, MOVES[actions[agent]]) for agent in agents}
        self._grow()
        views = self._views()
        if late:
            self.agents = []
        return (
            views,
            rewards,
            dict.fromkeys(agents, False),
            dict.fromkeys(agents, late),
            {agent: {} for agent in agents},
        )

    def _grow(self) -> None:
        """Let a gem appear in some of the empty cells."""
        empty = ~self.grid.any(axis=0)
        self.grid[GEM][empty & (self._random.random(empty.shape) < self._chance)] = 1

    def _move(self, agent: str, by: tuple[int, int]) -> float:
        """Move an agent by one cell if it can; return its reward."""
        old = self.places[agent]
        new = old[0] + by[0], old[1] + by[1]
        if self.grid[WALL][new]:
            return BUMPS
        if self.grid[AGENT][new]:
            return 0.0
        reward = TAKES if self.grid[GEM][new] else 0.0
        self.grid[GEM][new] = 0
        self.grid[AGENT][old], self.grid[AGENT][new] = 0, 1
        self.places[agent] = new
        return reward

    def _views(self) -> dict[str, np.ndarray]:
        """Return what each agent sees: the cells around it, without itself."""
        views = {}
        for agent in self.agents:
            row, column = (at - self._sight for at in self.places[agent])
            side = 2 * self._sight + 1
            views[agent] = self.grid[:, row : row + side, column : column + side].copy()
            views[agent][AGENT, self._sight, self._sight] = 0
        return views

    def render(self) -> np.ndarray | str | None:
        """Return the grid as text, or as a picture [height, width, 3] uint8."""
        inner = slice(self._sight, self._sight + self._size)
        grid = self.grid[:, inner, inner]
        kinds = np.where(grid.any(axis=0), grid.argmax(axis=0) + 1, 0)
        if self.render_mode == "rgb_array":
            return COLOURS[kinds].repeat(PIXELS, axis=0).repeat(PIXELS, axis=1)
        if self.render_mode == "ansi":
            return "\n".join("".join(".#*A"[kind] for kind in row) for row in kinds)
        return None

    def close(self) -> None:
        """Release nothing: the world is a few arrays."""


def greedy(observation: np.ndarray, mask: np.ndarray | None, random: np.random.Generator) -> int:
    """Walk to the nearest gem in view, or anywhere that is free. A script."""
    centre = observation.shape[1] // 2
    blocked = observation[WALL] + observation[AGENT]
    free = [
        move
        for move, (down, right) in enumerate(MOVES)
        if not blocked[centre + down, centre + right]
    ]
    gems = np.argwhere(observation[GEM]) - centre
    if len(gems):
        nearest = gems[np.abs(gems).sum(axis=1).argmin()]
        nearer = [move for move, by in enumerate(MOVES) if nearest @ by > 0]
        free = [move for move in nearer if move in free] or nearer
    return int(random.choice(free or range(len(MOVES))))


parallel_env = TreasureHunt
register("parallel", "examples/treasurehunt_v0", TreasureHunt)
