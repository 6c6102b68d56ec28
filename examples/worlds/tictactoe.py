"""Tic-tac-toe: three marks in a row, column or diagonal win.

`player_0` begins and marks squares with X; `player_1` marks them with O. The squares are numbered
row by row:

    0 1 2
    3 4 5
    6 7 8

The winner of a game is rewarded with 1 and the loser with -1; a draw is worth 0 to both. A player
sees its own marks first, so one policy can play either side. A taken square is masked; to choose it
all the same is an error.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, register

from farflung import register_opponent

LINES = (
    *((0, 1, 2), (3, 4, 5), (6, 7, 8)),
    *((0, 3, 6), (1, 4, 7), (2, 5, 8)),
    *((0, 4, 8), (2, 4, 6)),
)
PLAYERS = ("player_0", "player_1")
COLOURS = np.array([(235, 225, 200), (50, 90, 200), (200, 60, 50)], np.uint8)
PIXELS = 32  # each side of a square in a picture


def other_of(player: str) -> str:
    """Return the opponent of a player."""
    return PLAYERS[player == PLAYERS[0]]


def has_line(marks: np.ndarray) -> bool:
    """Return whether a player's marks [9] hold a whole line."""
    return any(all(marks[square] for square in line) for line in LINES)


def completing(marks: np.ndarray, others: np.ndarray) -> Iterator[int]:
    """Yield each empty square that completes a line of `marks`."""
    for line in LINES:
        missing = [square for square in line if not marks[square]]
        if len(missing) == 1 and not others[missing[0]]:
            yield missing[0]


class TicTacToe(AECEnv):
    """The world: two agents that move in turn."""

    metadata: ClassVar[dict[str, Any]] = {
        "name": "tictactoe_v0",
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 1,
        "is_parallelizable": False,
    }

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.possible_agents = list(PLAYERS)
        self.agents: list[str] = []
        self.observation_spaces = {
            agent: spaces.Dict(
                {
                    "observation": spaces.Box(0, 1, (2, 3, 3), np.float32),
                    "action_mask": spaces.Box(0, 1, (9,), np.int8),
                }
            )
            for agent in self.possible_agents
        }
        self.action_spaces = {agent: spaces.Discrete(9) for agent in self.possible_agents}
        self.render_mode = render_mode

    def observation_space(self, agent: str) -> spaces.Dict:
        """Return the space of boards: own marks, then those of the other one; and the mask."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        """Return the space of squares."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin with an empty board. Nothing is drawn by lot, so a seed changes nothing."""
        self.marks = {agent: np.zeros(9, bool) for agent in self.possible_agents}
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = PLAYERS[0]

    def observe(self, agent: str) -> dict[str, np.ndarray]:
        """Return the board as a player sees it. Only the player to move has a mask."""
        own, other = self.marks[agent], self.marks[other_of(agent)]
        playing = agent == self.agent_selection and not self.terminations.get(agent, True)
        return {
            "observation": np.array([own, other], np.float32).reshape(2, 3, 3),
            "action_mask": (playing & ~(own | other)).astype(np.int8),
        }

    def step(self, action: int | None) -> None:
        """Put a mark into a square. Once the game is over, both agents leave with None."""
        player = self.agent_selection
        if self.terminations[player]:
            self._was_dead_step(action)
            return
        other = other_of(player)
        if action not in np.flatnonzero(self.observe(player)["action_mask"]):
            raise ValueError(f"square {action} is taken: choose one that the mask allows")
        self._clear_rewards()
        self._cumulative_rewards[player] = 0.0
        self.marks[player][action] = True
        won = has_line(self.marks[player])
        if won:
            self.rewards = {player: 1.0, other: -1.0}
        if won or np.all(self.marks[player] | self.marks[other]):
            self.terminations = dict.fromkeys(self.agents, True)
        self._accumulate_rewards()
        self.agent_selection = other

    def render(self) -> np.ndarray | str | None:
        """Return the board as text, or as a picture [height, width, 3] uint8."""
        kinds = sum(n * self.marks[player] for n, player in enumerate(PLAYERS, 1)).reshape(3, 3)
        if self.render_mode == "rgb_array":
            return COLOURS[kinds].repeat(PIXELS, axis=0).repeat(PIXELS, axis=1)
        if self.render_mode == "ansi":
            return "\n".join(" ".join(".XO"[kind] for kind in row) for row in kinds)
        return None

    def close(self) -> None:
        """Release nothing: the world is two arrays."""


def win_or_block(observation: np.ndarray, mask: np.ndarray, random: np.random.Generator) -> int:
    """Complete a line, else prevent one, else take any empty square. A script."""
    own, other = observation.reshape(2, 9)
    squares = list(completing(own, other)) or list(completing(other, own))
    return int(random.choice(squares or np.flatnonzero(mask)))


env = TicTacToe
register_opponent("win_or_block", win_or_block)
register("aec", "examples/tictactoe_v0", TicTacToe)
