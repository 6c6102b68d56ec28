"""PettingZoo's two forms of environments as games: all agents at once, and one after the other."""

import copy
from collections.abc import Mapping
from typing import Any

from farflung.actor.worlds.failures import Environment
from farflung.actor.worlds.game import Events, Last, Seen, seen
from farflung.common.data.parcel import Ending


class ParallelGame:
    """An environment in which all agents act at once, except those that are shown nothing."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._live: list[str] = []  # the agents of the episode, in the environment's order

    def begin(self, seed: int) -> Events:
        """Begin an episode."""
        observations, infos = self._environment.reset(seed=seed)
        self._live = list(self._environment.agents)
        return self._events(observations, {}, {}, infos)

    def step(self, actions: Mapping[str, Any]) -> Events:
        """Take all actions at once."""
        chosen = {agent: actions[agent] for agent in self._live if agent in actions}
        observations, rewards, terminated, truncated, infos = self._environment.step(chosen)
        endings = {agent: Ending.TRUNCATED for agent in truncated if truncated[agent]}
        endings |= {agent: Ending.TERMINATED for agent in terminated if terminated[agent]}
        gone = [agent for agent in self._live if agent not in self._environment.agents]
        endings = dict.fromkeys(gone, Ending.TRUNCATED) | endings
        self._live = [agent for agent in self._environment.agents if agent not in endings]
        return self._events(observations, rewards, endings, infos)

    def cut(self, events: Events) -> Events:
        """Return these events with all agents cut that are left."""
        ended = {agent: Last(Ending.TRUNCATED, events.due.get(agent)) for agent in self._live}
        return Events({}, events.rewards, {**events.ended, **ended}, over=True)

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()

    def _events(
        self,
        observations: Mapping[str, Any],
        rewards: Mapping[str, Any],
        endings: Mapping[str, Ending],
        infos: Mapping[str, Any],
    ) -> Events:
        shown = {
            agent: seen(observation, infos.get(agent))
            for agent, observation in observations.items()
        }
        due = {agent: shown[agent] for agent in self._live if agent in shown}
        ended = {agent: Last(ending, shown.get(agent)) for agent, ending in endings.items()}
        return Events(due, rewards, ended, over=not self._live)


class TurnGame:
    """An environment in which one agent acts at a time."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def begin(self, seed: int) -> Events:
        """Begin an episode."""
        self._environment.reset(seed=seed)
        return self._events()

    def step(self, actions: Mapping[str, Any]) -> Events:
        """Take the action of the agent that was due."""
        (action,) = actions.values()
        self._environment.step(action)
        return self._events()

    def cut(self, events: Events) -> Events:
        """Return these events with all agents cut that are left, at what they would see now."""
        environment = self._environment
        sums = environment._cumulative_rewards
        left = [agent for agent in environment.agents if agent not in events.ended]
        ended = {agent: Last(Ending.TRUNCATED, self._look(agent)) for agent in left}
        rewards = {agent: sums.get(agent, 0.0) for agent in left}
        return Events({}, {**events.rewards, **rewards}, {**events.ended, **ended}, over=True)

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()

    def _events(self) -> Events:
        """Let the dead leave, until an agent must act."""
        environment = self._environment
        rewards: dict[str, Any] = {}
        ended: dict[str, Last] = {}
        while environment.agents:
            agent = environment.agent_selection
            observation, rewards[agent], terminated, truncated, info = environment.last()
            if not (terminated or truncated):
                return Events({agent: seen(observation, info)}, rewards, ended, over=False)
            ending = Ending.TERMINATED if terminated else Ending.TRUNCATED
            # A copy: the next agent's observation may be written into the same array.
            ended[agent] = Last(ending, _shown(copy.deepcopy(observation), info))
            environment.step(None)
        return Events({}, rewards, ended, over=True)

    def _look(self, agent: str) -> Seen | None:
        environment = self._environment
        return _shown(copy.deepcopy(environment.observe(agent)), environment.infos.get(agent))


def _shown(observation: Any, info: Any) -> Seen | None:
    return None if observation is None else seen(observation, info)
