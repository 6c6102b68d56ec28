"""The worlds of `examples/worlds`, which belong to no package, and games played in them."""

import importlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

WORLDS = Path(__file__).parents[2] / "examples" / "worlds"
Script = Callable[[Any, np.ndarray, np.random.Generator], int]
Move = tuple[Any, int, float]  # observation, action, and the reward until the agent's next one


def load(name: str) -> ModuleType:
    """Return the module of a world, under the name that `--import` has for it."""
    if str(WORLDS) not in sys.path:
        sys.path.append(str(WORLDS))
    return importlib.import_module(name)


def any_legal(observation: Any, mask: np.ndarray, random: np.random.Generator) -> int:
    """Choose any action that the mask allows."""
    return int(random.choice(np.flatnonzero(mask)))


def play(world: Any, actions: Iterable[int]) -> None:
    """Take these actions, one turn each."""
    for action in actions:
        world.step(action)


def recorded(world: Any, scripts: Iterable[Script], seed: int) -> dict[str, list[Move]]:
    """Play one game of a turn-based world; return the moves of each agent with their rewards.

    The rewards are those that `last()` tells an agent at its own next turn, or after the end.
    """
    random = np.random.default_rng(seed)
    world.reset(seed=seed)
    of = dict(zip(world.possible_agents, scripts, strict=True))
    moves, open_move = defaultdict[str, list[Move]](list), dict[str, tuple[Any, int]]()
    for agent in world.agent_iter():
        observation, reward, terminated, truncated, _ = world.last()
        if agent in open_move:
            moves[agent].append((*open_move.pop(agent), reward))
        else:
            assert reward == 0
        if terminated or truncated:
            world.step(None)
            continue
        seen, mask = observation["observation"], observation["action_mask"]
        action = of[agent](seen, mask, random)
        assert mask[action]
        open_move[agent] = (seen, action)
        world.step(action)
    return moves
