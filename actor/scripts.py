"""Scripts: functions that act in a seat beside the policies that learn. Random actions are one."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from farflung.actor.worlds.arguments import sentence
from farflung.actor.worlds.taken import require_action
from farflung.actor.worlds.world import Due, Outcomes
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import ACTION_MASK, Space, Spec, column_name
from farflung.common.data.weights import Weights
from farflung.common.heads.gaussian import bounds
from farflung.common.heads.masks import allows, any_legal, of_each
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.text import printable

Script = Callable[[Any, np.ndarray | None, np.random.Generator], Any]
"""Takes an observation, the mask of legal actions if the world has one, and a generator; returns an
action. Spaces that count from another number than 0 are shown and taken from 0 on."""

SCRIPTS: dict[str, Script] = {}  # by the names that pools have for them


def register_opponent(name: str, script: Script) -> None:
    """Make a script known under a name, for the pool of a learner to ask for."""
    SCRIPTS[name] = script


def registered(name: str, by: str = "the pool") -> Script:
    """Return the script of a name, or refuse it: code never comes over the network."""
    if name not in SCRIPTS:
        have = ", ".join(map(printable, sorted(SCRIPTS))) or "none"
        raise ConfigurationError(
            f"{by} names the script {printable(name)}, and those registered here are: "
            f"{have}. --import PACKAGE registers yours, on the learner and on each actor"
        )
    return SCRIPTS[name]


class Scripted:
    """Acts by a script, and records nothing."""

    full = False  # it has no window
    owes: bool | None = None  # nor rounds

    def __init__(self, spec: Spec, script: Script, name: str, rng: np.random.Generator) -> None:
        """Make a player of the seats of a spec's policy, with the columns that the spec has."""
        self._script, self._name, self._rng = script, name, rng
        self._action, self._world = spec.action, spec.world.environment
        self._keys = {key: column_name(key) for key in spec.observation}

    def restart(self) -> None:
        """Forget nothing."""

    def wants(self, weights: Weights) -> bool:
        """Return False: no weights are played."""
        return False

    def begin(self, weights: Weights, steps: int, spare: bool = False) -> None:
        """Begin nothing."""

    def act(self, due: Due) -> np.ndarray:
        """Return actions [n, *shape] for the due seats, asked for one after the other."""
        count = len(next(iter(due.columns.values())))
        found = [self._one({key: due.columns[key][n] for key in due.columns}) for n in range(count)]
        return np.stack(found)

    def record(self, outcomes: Outcomes | None, due: Due | None) -> None:
        """Record nothing."""

    def parcels(self) -> list[Parcel]:
        """Return nothing."""
        return []

    def _one(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        mask = columns.get(ACTION_MASK)
        parts = {key: columns[name] for key, name in self._keys.items()}
        sizes = self._action.sizes
        if mask is not None and not all(part.any() for part in of_each(mask, sizes)):
            raise ConfigurationError(
                f"{self._world} asks for an action, and its action mask allows none "
                "(correct the environment)"
            )
        try:
            chosen = self._script(parts.get("", parts), mask, self._rng)
        except Exception as error:  # a user's code
            raise ConfigurationError(
                f"the script {self._name} failed in {self._world}: {sentence(error)}"
            ) from error
        action = require_action(chosen, self._action, f"{self._world} (script {self._name})")
        if mask is not None and not allows(mask, sizes, action):
            legal = [np.flatnonzero(part).tolist() for part in of_each(mask, sizes)]
            raise ConfigurationError(
                f"the script {self._name} chose {chosen!r} in {self._world}, where only "
                f"{legal[0] if len(legal) == 1 else legal} are legal: choose what the mask allows"
            )
        return action


def any_action(action: Space) -> Script:
    """Return the script that takes any legal action of a space, each as likely as the others."""

    def choose(observation: Any, mask: np.ndarray | None, rng: np.random.Generator) -> Any:
        if mask is not None:
            return any_legal(mask, action.sizes, rng).reshape(action.shape)[()]
        if action.kind == "box":
            return rng.uniform(*bounds(action)).astype(action.dtype)
        return rng.integers(np.reshape(action.sizes, action.shape))

    return choose
