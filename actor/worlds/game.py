"""The interface of environments with agents, and the events that they tell of."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from farflung.actor.worlds.spaces import as_mask
from farflung.common.data.parcel import Ending
from farflung.common.data.spec import ACTION_MASK, INFO

MASK = ACTION_MASK.removeprefix(INFO)  # the key of the legal actions
SEEN = "observation"  # the key beside it in an observation


class Seen(NamedTuple):
    """An agent's observation, and its info, which holds the mask of actions if there is one."""

    observation: Any
    info: Mapping[str, Any]


class Last(NamedTuple):
    """The end of an agent's episode."""

    ending: Ending
    seen: Seen | None  # None: the environment showed nothing after the last step


class Events(NamedTuple):
    """The events until an agent must act, or until none is left."""

    due: Mapping[str, Seen]  # the agents that must act now
    rewards: Mapping[str, Any]  # since the events before, by agent
    ended: Mapping[str, Last]
    over: bool  # the episode of the environment: no agent is left


class Game(Protocol):
    """One environment with agents. All due agents act before the next events."""

    def begin(self, seed: int) -> Events:
        """Begin an episode with a random stream of its own."""

    def step(self, actions: Mapping[str, Any]) -> Events:
        """Take the actions of the due agents, in the environment's own order."""

    def cut(self, events: Events) -> Events:
        """Return these events as the end of the episode: all agents that are left are cut."""

    def close(self) -> None:
        """Release what the environment holds."""


def seen(observation: Any, info: Any) -> Seen:
    """Move the mask of actions from an observation to the info, as booleans."""
    known: Mapping[str, Any] = info if info is not None else {}
    if isinstance(observation, Mapping) and MASK in observation:
        rest = {key: part for key, part in observation.items() if key != MASK}
        known = {**known, MASK: observation[MASK]}
        observation = rest[SEEN] if rest.keys() == {SEEN} else rest
    if MASK in known:
        known = {**known, MASK: as_mask(known[MASK]) != 0}
    return Seen(observation, known)
