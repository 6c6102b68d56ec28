"""Ludo for two players: the first to bring four pieces around the board and home wins.

- A piece's place is the number of steps it has come. 0 is the yard, where all pieces begin; 1 to 51
  are squares of the ring, 52 to 56 the player's own lane, and 57 is home. The ring has 52 squares,
  and the players enter it at opposite ones.
- Players roll a die in turn and move one of their pieces by as many steps. A piece leaves the yard
  with a six only, to step 1. It gets home with the exact number only.
- A piece that lands on the ring sends all pieces of the other player there back to their yard,
  unless the square is safe. Eight squares are: the first and the ninth of each quarter of the ring.
  Pieces of one player may share a square; no piece is in the way of another one.
- After a six the player rolls again. A player that cannot move any piece passes. The world does
  that, so an agent may be asked twice in a row, or not for many rolls.
- The winner is rewarded with 1 and the loser with -1. After 1,000 rolls a game is truncated.

The action is the number of a piece, and a mask names those that can move.
"""

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from pettingzoo import AECEnv, register

PIECES, RING, LANE, HOME = 4, 52, 52, 57  # LANE is the first step in it
QUARTER, SIX, ROLLS = RING // 4, 6, 1_000
PLAYERS = ("player_0", "player_1")  # red and blue in a picture
PLACES = HOME + 1
VIEW = (PIECES + 1) * PLACES + SIX


def other_of(player: str) -> str:
    """Return the opponent of a player."""
    return PLAYERS[player == PLAYERS[0]]


def square(steps: int, player: int) -> int:
    """Return the number of the ring's square that a player's piece is on after 1 to 51 steps."""
    return (steps - 1 + player * RING // 2) % RING


def movable(pieces: list[int], die: int) -> np.ndarray:
    """Return the mask [4] int8 of the pieces that a player can move."""
    return np.array([die == SIX if at == 0 else at + die <= HOME for at in pieces], np.int8)


def moved(steps: int, die: int) -> int:
    """Return the place of a piece after its move."""
    return steps + die if steps else 1


def captured(steps: int, player: int, others: list[int]) -> list[int]:
    """Return the other player's pieces that a piece sends back when it lands after `steps`."""
    if steps >= LANE or square(steps, player) % QUARTER in (0, 8):
        return []
    here = square(steps, player)
    return [
        piece for piece, at in enumerate(others) if 0 < at < LANE and square(at, 1 - player) == here
    ]


class Ludo(AECEnv):
    """The world: two agents, of which the one that can move is asked for a piece."""

    metadata: ClassVar[dict[str, Any]] = {
        "name": "ludo_v0",
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 4,
        "is_parallelizable": False,
    }

    def __init__(self, rolls: int = ROLLS, render_mode: str | None = None) -> None:
        super().__init__()
        self.possible_agents = list(PLAYERS)
        self.agents: list[str] = []
        self.observation_spaces = {
            agent: spaces.Dict(
                {
                    "observation": spaces.Box(0, 1, (VIEW,), np.float32),
                    "action_mask": spaces.Box(0, 1, (PIECES,), np.int8),
                }
            )
            for agent in self.possible_agents
        }
        self.action_spaces = {agent: spaces.Discrete(PIECES) for agent in self.possible_agents}
        self.render_mode = render_mode
        self._rolls = rolls
        self.dice, _ = seeding.np_random()

    def observation_space(self, agent: str) -> spaces.Dict:
        """Return the space of positions as `observe` describes them."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        """Return the space of pieces."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Put all pieces into the yards, and roll until one can leave. `player_0` rolls first."""
        if seed is not None:
            self.dice, _ = seeding.np_random(seed)
        self.agents = self.possible_agents[:]
        self.pieces = {agent: [0] * PIECES for agent in self.agents}
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.rolled = 0
        self._roll(PLAYERS[0])

    def observe(self, agent: str) -> dict[str, np.ndarray]:
        """Return where the pieces are, as the agent sees it, and the die.

        Each own piece has a one among 58 places; then comes the share of the other player's pieces
        at each of its own 58 places; then a one among six for the die. Only the player to move
        sees the die and has a mask.
        """
        playing = agent == self.agent_selection and agent in self.agents and not self._over(agent)
        own = np.eye(PLACES, dtype=np.float32)[self.pieces[agent]]
        others = np.bincount(self.pieces[other_of(agent)], minlength=PLACES) / PIECES
        die = np.eye(SIX)[self.die - 1] * playing
        return {
            "observation": np.concatenate([own.ravel(), others, die], dtype=np.float32),
            "action_mask": movable(self.pieces[agent], self.die) * np.int8(playing),
        }

    def step(self, action: int | None) -> None:
        """Move a piece. Once the game is over, both agents leave with None."""
        player = self.agent_selection
        if self._over(player):
            self._was_dead_step(action)
            return
        if action not in np.flatnonzero(movable(self.pieces[player], self.die)):
            raise ValueError(f"piece {action} cannot move: choose one that the mask allows")
        self._clear_rewards()
        self._cumulative_rewards[player] = 0.0
        self._move(player, int(action))
        other = other_of(player)
        if self.pieces[player] == [HOME] * PIECES:
            self.rewards = {player: 1.0, other: -1.0}
            self.terminations = dict.fromkeys(self.agents, True)
        else:
            self._roll(player if self.die == SIX else other)
        self._accumulate_rewards()

    def _move(self, player: str, piece: int) -> None:
        """Move a piece, and send back those of the other player that it lands on."""
        others = self.pieces[other_of(player)]
        steps = moved(self.pieces[player][piece], self.die)
        self.pieces[player][piece] = steps
        for each in captured(steps, PLAYERS.index(player), others):
            others[each] = 0

    def _roll(self, player: str) -> None:
        """Roll the die, for one player after the other, until one of them can move."""
        while self.rolled < self._rolls:
            self.rolled += 1
            self.agent_selection, self.die = player, int(self.dice.integers(1, SIX + 1))
            if movable(self.pieces[player], self.die).any():
                return
            if self.die != SIX:
                player = other_of(player)
        self.truncations = dict.fromkeys(self.agents, True)

    def _over(self, agent: str) -> bool:
        return self.terminations[agent] or self.truncations[agent]

    def render(self) -> np.ndarray | str | None:
        """Return the steps of all pieces as text, or the board as a picture."""
        if self.render_mode == "rgb_array":
            return picture(*self.pieces.values())
        if self.render_mode == "ansi":
            places = "; ".join(
                f"{agent} {' '.join(map(str, pieces))}" for agent, pieces in self.pieces.items()
            )
            return f"{places}; {self.agent_selection} rolled {self.die}"
        return None

    def close(self) -> None:
        """Release nothing: the world is a few numbers."""


def path(player: int) -> list[tuple[int, int]]:
    """Return the row and column on a board of 15 x 15 of each place from step 1 to home."""
    arm = [(6, column) for column in range(1, 6)] + [(row, 6) for row in range(5, -1, -1)]
    ring = [*arm, (0, 7), (0, 8)]
    for _ in range(3):
        ring += [(column, 14 - row) for row, column in ring[-QUARTER:]]
    cells = ring[: LANE - 1] + [(7, column) for column in range(1, 7)]
    return [(14 - row, 14 - column) for row, column in cells] if player else cells


def picture(red: list[int], blue: list[int]) -> np.ndarray:
    """Return the board as a picture [height, width, 3] uint8; yards are in the corners."""
    board = np.full((15, 15, 3), 90, np.uint8)
    for player, lane in enumerate(((245, 200, 190), (190, 200, 245))):
        cells = path(player)
        for step, cell in enumerate(cells, 1):
            board[cell] = lane if step in (1, *range(LANE, PLACES)) else (235, 225, 200)
    for player, (pieces, colour) in enumerate(((red, (200, 60, 50)), (blue, (50, 90, 200)))):
        cells = path(player)
        for piece, steps in enumerate(pieces):
            yard = (2 + piece // 2, 2 + piece % 2)
            corner = (14 - yard[0], 14 - yard[1]) if player else yard
            board[cells[steps - 1] if steps else corner] = colour
    return board.repeat(24, axis=0).repeat(24, axis=1)


def capture_or_run(observation: np.ndarray, mask: np.ndarray, random: np.random.Generator) -> int:
    """Send a piece back, else leave the yard, else move the piece in front. A script."""
    own = observation[: PIECES * PLACES].reshape(PIECES, PLACES).argmax(axis=1).tolist()
    others = np.flatnonzero(observation[PIECES * PLACES : -SIX]).tolist()
    die = int(observation[-SIX:].argmax()) + 1
    pieces = np.flatnonzero(mask).tolist()
    captures = [piece for piece in pieces if captured(moved(own[piece], die), 0, others)]
    leaving = [piece for piece in pieces if own[piece] == 0]
    first = max(own[piece] for piece in pieces)
    in_front = [piece for piece in pieces if own[piece] == first]
    return int(random.choice(captures or leaving or in_front))


env = Ludo
register("aec", "examples/ludo_v0", Ludo)
