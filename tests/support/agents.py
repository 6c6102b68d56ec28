"""Worlds with agents in PettingZoo's two forms: they die, join late, skip and act twice.

Every observation is unique: world, agent, life and own step of the agent, time of the world. So a
row that is missing, doubled or in another's trajectory is seen.
"""

import itertools
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

NUMBERS = itertools.count(1)  # of worlds in this process
AGENTS = ("ann", "bob", "cat", "dot")
STAMP = spaces.Box(-np.inf, np.inf, (5,), np.float32)
FEW = 4  # actions


class Lives:
    """The agents of an episode, and the dice of their fates."""

    def __init__(self) -> None:
        self.world, self.time = next(NUMBERS), 0
        self.lives = dict.fromkeys(AGENTS, 0)
        self.steps = dict.fromkeys(AGENTS, 0)

    def begin(self, seed: int | None) -> list[str]:
        """Begin an episode with some of the agents."""
        self.rng = np.random.default_rng(seed)
        self.until = self.time + int(self.rng.integers(3, 30))
        present = [agent for agent in AGENTS if self.rng.random() < 0.7] or [AGENTS[2]]
        for agent in present:
            self.join(agent)
        return present

    def join(self, agent: str) -> None:
        """Begin a life."""
        self.lives[agent] += 1
        self.steps[agent] = 0

    def chance(self, of: float) -> bool:
        """Throw the dice."""
        return bool(self.rng.random() < of)

    def rewards(self, agents: list[str]) -> dict[str, float]:
        """Pay each agent a whole number."""
        return {agent: float(self.rng.integers(100)) for agent in agents}

    def newcomers(self, present: list[str]) -> list[str]:
        """Let absent agents join now and then, in another life."""
        found = [agent for agent in AGENTS if agent not in present and self.chance(0.1)]
        for agent in found:
            self.join(agent)
        return found

    def stamp(self, agent: str) -> np.ndarray:
        """Return what an agent sees."""
        numbers = (AGENTS.index(agent), self.lives[agent], self.steps[agent], self.time)
        return np.array([self.world, *numbers], np.float32)


class Meeting(ParallelEnv):
    """All agents act at once, except those that are busy: they are shown nothing."""

    metadata = {"name": "meeting_v0"}  # noqa: RUF012

    def __init__(self) -> None:
        self.possible_agents = list(AGENTS)
        self.agents: list[str] = []
        self.render_mode = None
        self._lives = Lives()
        self._buffer = np.zeros((len(AGENTS), 5), np.float32)

    def observation_space(self, agent: str) -> spaces.Space:
        """Return the space of a stamp."""
        return STAMP

    def action_space(self, agent: str) -> spaces.Space:
        """Return a few actions."""
        return spaces.Discrete(FEW)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict, dict]:
        """Begin an episode."""
        self.agents = self._lives.begin(seed)
        return self._shown(self.agents), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[dict, dict, dict, dict, dict]:
        """Take the actions of those that are not busy."""
        lives = self._lives
        lives.time += 1
        assert list(actions) == [agent for agent in self.agents if agent in actions]
        for agent in actions:
            lives.steps[agent] += 1
        present, over = self.agents, lives.time >= lives.until
        dead = {agent: lives.chance(0.08) for agent in present}
        gone = {agent: over and not dead[agent] for agent in present}
        self.agents = [agent for agent in present if not dead[agent] and not gone[agent]]
        if self.agents:
            self.agents += lives.newcomers(present)
        busy = [agent for agent in self.agents if lives.chance(0.3)]
        seen = [
            agent
            for agent in {**dict.fromkeys(present), **dict.fromkeys(self.agents)}
            if agent not in busy
        ]
        infos = {agent: {} for agent in seen}
        return self._shown(seen), lives.rewards(present), dead, gone, infos

    def _shown(self, agents: list[str]) -> dict[str, np.ndarray]:
        """Write into the same arrays again, as some environments do."""
        for agent in agents:
            self._buffer[AGENTS.index(agent)] = self._lives.stamp(agent)
        return {agent: self._buffer[AGENTS.index(agent)] for agent in agents}


class Circle(AECEnv):
    """One agent acts at a time, in no fixed order: some twice, some hardly ever."""

    metadata = {"name": "circle_v0", "is_parallelizable": False}  # noqa: RUF012

    def __init__(self, masked: bool = False) -> None:
        super().__init__()
        self.possible_agents = list(AGENTS)
        self.render_mode = None
        self._lives, self._masked = Lives(), masked
        self._buffer = np.zeros(5, np.float32)

    def observation_space(self, agent: str) -> spaces.Space:
        """Return the space of a stamp, with a mask beside it."""
        mask = spaces.Box(0, 1, (FEW,), np.int8)
        return spaces.Dict({"observation": STAMP, "action_mask": mask}) if self._masked else STAMP

    def action_space(self, agent: str) -> spaces.Space:
        """Return a few actions."""
        return spaces.Discrete(FEW)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        """Begin an episode."""
        self.agents = self._lives.begin(seed)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self._skip_agent_selection = None
        self.agent_selection = self.agents[0]

    def observe(self, agent: str) -> Any:
        """Write into the same array for all agents, as some environments do."""
        self._buffer[:] = self._lives.stamp(agent)
        if not self._masked:
            return self._buffer
        mask = np.zeros(FEW, np.int8)
        mask[(int(self._buffer.sum()) + np.arange(2)) % FEW] = 1
        return {"observation": self._buffer, "action_mask": mask}

    def step(self, action: Any) -> None:
        """Let the agent of this turn act, and fate decide on the others."""
        actor, lives = self.agent_selection, self._lives
        if self.terminations[actor] or self.truncations[actor]:
            self._was_dead_step(action)
            return
        assert not self._masked or self.observe(actor)["action_mask"][action]
        lives.time += 1
        lives.steps[actor] += 1
        self._cumulative_rewards[actor] = 0.0
        self.rewards = lives.rewards(self.agents)
        self._accumulate_rewards()
        over = lives.time >= lives.until
        for agent in self.agents:
            self.terminations[agent] = lives.chance(0.05)
            self.truncations[agent] = over
        left = [a for a in self.agents if not (self.terminations[a] or self.truncations[a])]
        for agent in lives.newcomers(self.agents) if left else ():
            self._enter(agent)
            left.append(agent)
        self.agent_selection = str(lives.rng.choice(left)) if left else self.agents[0]
        self._deads_step_first()

    def _enter(self, agent: str) -> None:
        self.agents.append(agent)
        self.rewards[agent] = self._cumulative_rewards[agent] = 0.0
        self.terminations[agent] = self.truncations[agent] = False
        self.infos[agent] = {}
