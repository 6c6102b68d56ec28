"""Scores of random and scripted agents in these worlds: `python examples/worlds/scores.py 1000`.

The number is that of episodes for each line. A trained policy is worth comparing with these lines.
"""

import sys
from collections.abc import Callable
from typing import Any

import ludo
import numpy as np
import tictactoe
import treasurehunt

Script = Callable[[Any, Any, np.random.Generator], int]


def any_move(observation: Any, mask: np.ndarray | None, random: np.random.Generator) -> int:
    """Choose at random, among what a mask allows."""
    moves = len(treasurehunt.MOVES) if mask is None else np.flatnonzero(mask)
    return int(random.choice(moves))


def totals(script: Script, agents: int, episodes: int, random: np.random.Generator) -> np.ndarray:
    """Return the rewards of all agents together in each episode of the treasure hunt [episodes]."""
    world = treasurehunt.parallel_env(agents)
    found = np.zeros(episodes)
    for episode in range(episodes):
        views, _ = world.reset(seed=episode)
        while world.agents:
            actions = {agent: script(views[agent], None, random) for agent in world.agents}
            views, rewards, *_ = world.step(actions)
            found[episode] += sum(rewards.values())
    return found


def outcomes(world: Any, first: Script, second: Script, seeds: range) -> np.ndarray:
    """Return the reward of the first player at the end of each game [games]."""
    random, found = np.random.default_rng(seeds.start), np.zeros(len(seeds))
    scripts = dict(zip(world.possible_agents, (first, second), strict=True))
    for game, seed in enumerate(seeds):
        world.reset(seed=seed)
        while not any((*world.terminations.values(), *world.truncations.values())):
            seen = world.observe(world.agent_selection)
            script = scripts[world.agent_selection]
            world.step(script(seen["observation"], seen["action_mask"], random))
            found[game] = world.rewards[world.possible_agents[0]]
    return found


def main(episodes: int) -> None:
    """Print a line for each world and script; seats alternate in those of two players."""
    for agents in (3, 5):
        for name, script in (("random", any_move), ("greedy", treasurehunt.greedy)):
            found = totals(script, agents, episodes, np.random.default_rng(0))
            error = found.std() / np.sqrt(episodes)
            print(f"treasurehunt, {agents} agents, {name}: {found.mean():.0f} +- {error:.0f}")
    for module, script in ((tictactoe, tictactoe.win_or_block), (ludo, ludo.capture_or_run)):
        world, half = module.env(), episodes // 2
        begins = outcomes(world, script, any_move, range(half))
        follows = -outcomes(world, any_move, script, range(half, episodes))
        both = np.concatenate([begins, follows])
        print(
            f"{module.__name__}, {script.__name__} against random: "
            f"{(both > 0).mean():.2f} won, {(both < 0).mean():.2f} lost"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
