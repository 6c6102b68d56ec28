"""Worlds of two agents that do not act on each other.

`--import apart:Apart` makes them known. REWARD is what the second agent gets instead. GATE is a
file with the number of steps that each world may do; without one, nothing holds them.
"""

import os
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv

REWARD = os.environ.get("REWARD", "")
GATE = os.environ.get("GATE", "")
LOOK_S = 0.01


class Apart(ParallelEnv):  # type: ignore[misc]
    """Each agent has a dial of its own to set, and random numbers of its own."""

    metadata: ClassVar[dict[str, Any]] = {"name": "apart"}

    def __init__(self, length: int = 25) -> None:
        self.possible_agents = ["agent_0", "agent_1"]
        self.agents: list[str] = []
        self.render_mode = None
        self._length, self._turn = length, 0
        self._steps, self._allowed = 0, 0
        self._random: dict[str, np.random.Generator] = {}
        self._place: dict[str, int] = {}
        self._box, self._choices = Box(0, 4, (2,), np.float32), Discrete(4)

    def observation_space(self, agent: str) -> Box:
        """Return the place and the last action."""
        return self._box

    def action_space(self, agent: str) -> Discrete:
        """Return the places of a dial."""
        return self._choices

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode of both agents."""
        self.agents, self._turn = list(self.possible_agents), 0
        for number, agent in enumerate(self.agents):
            if seed is not None or agent not in self._random:
                self._random[agent] = np.random.default_rng([seed or 0, number])
            self._place[agent] = int(self._random[agent].integers(4))
        return {agent: self._seen(agent, 0) for agent in self.agents}, self._infos()

    def step(self, actions: Any) -> Any:
        """Let each agent turn its own dial."""
        self._pass_the_gate()
        self._turn += 1
        rewards = {agent: float(actions[agent] == self._place[agent]) for agent in self.agents}
        if REWARD:
            rewards["agent_1"] = float(REWARD)
        for agent in self.agents:
            moved = self._place[agent] + int(self._random[agent].integers(-1, 2))
            self._place[agent] = moved % 4
        seen = {agent: self._seen(agent, int(actions[agent])) for agent in self.agents}
        over = self._turn == self._length
        infos = self._infos()
        ended = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, over)
        if over:
            self.agents = []
        return seen, rewards, *ended, infos

    def _pass_the_gate(self) -> None:
        while GATE and self._steps >= self._allowed:
            self._allowed = int(Path(GATE).read_text())
            time.sleep(LOOK_S)
        self._steps += 1

    def _seen(self, agent: str, action: int) -> np.ndarray:
        return np.array([self._place[agent], action], np.float32)

    def _infos(self) -> dict[str, dict[str, Any]]:
        return {agent: {} for agent in self.agents}
