"""A world of one seat that a caller steps: its loop is owned from outside, see ActorSession."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from farflung.actor.worlds.measures import Measures
from farflung.actor.worlds.spaces import ObservationField, SpaceAdapter
from farflung.actor.worlds.world import Due, End, Outcomes, Turn
from farflung.common.data.parcel import Ending
from farflung.common.data.spec import Space, Spec
from farflung.common.heads.gaussian import bounds
from farflung.common.process.errors import ConfigurationError

NO_INFO: Mapping[str, Any] = {}


class ExternalWorld:
    """Turns out of what a caller shows and records.

    The outcome of an action is known when the caller shows what it acts on next: only then the
    beginning of the next episode is known.
    """

    def __init__(
        self, spec: Spec, report: Callable[[str, str], None] = lambda kind, text: None
    ) -> None:
        fields = tuple(ObservationField(key, space) for key, space in spec.observation.items())
        self._name, self._policy = f"the learner's {spec.world.environment}", spec.policy
        self._adapter = SpaceAdapter(fields, spec.action, np.copy, spec.infos)
        self._measures = Measures(spec.metrics, report)
        self._rows = self._adapter.rows(1)  # the same arrays in each turn
        self._outcomes = Outcomes(np.zeros(1, np.float32))
        self._acted = False
        self._outcome: tuple[float, End] | None = None

    def see(self, observation: Any, info: Mapping[str, Any] = NO_INFO) -> Turn:
        """Return the turn in which the seat sees this: what came of its last action, and its due.

        An action without an outcome is lost, and what follows counts as another episode.
        """
        return self._turn(self._capture(observation, info))

    def acted(self) -> None:
        """Note that the seat has acted on what it saw."""
        self._acted, self._outcome = True, None

    def record(self, reward: float, ending: Ending, seen: Any, info: Mapping[str, Any]) -> None:
        """Note what came of the last action: `seen` is the observation after it."""
        if not self._acted or self._outcome is not None:
            raise ValueError("record() takes what came of an action, once: call act() before it")
        metrics = () if ending is Ending.OPEN else self._measures.read(info)
        self._outcome = float(reward), End(ending, self._capture(seen, info), metrics)

    def taken(self, action: Any) -> np.ndarray:
        """Return an action of the caller's as the spec has it, [*shape], or refuse it."""
        space = self._adapter.action
        try:
            found = np.asarray(action)
            fits = found.shape == space.shape and np.can_cast(found.dtype, space.dtype, "same_kind")
        except ValueError:
            fits = False
        if not fits:
            raise ConfigurationError(
                f"the action {action!r} was taken, and {self._name} has {space.dtype} {space.shape}"
            )
        row: np.ndarray = found.astype(space.dtype)
        low, high = _edges(space)
        if not (np.isfinite(row) & (row >= low) & (row <= high)).all():
            raise ConfigurationError(
                f"the action {action!r} was taken, and {self._name} has actions "
                f"from {low.tolist()} to {high.tolist()}"
            )
        return row

    def rest(self) -> Turn | None:
        """Return the last turn, if an outcome was recorded that is in none yet."""
        return self._turn(self._outcome[1].columns) if self._outcome is not None else None

    def _turn(self, seen: Mapping[str, np.ndarray]) -> Turn:
        for name, row in seen.items():
            self._rows[name][0] = row
        due = {self._policy: Due(self._rows)}
        if not self._acted:
            return Turn(due, {})
        reward, end = self._outcome or (0.0, None)
        self._outcomes.rewards[0] = reward
        self._outcomes.lost = [] if end else [0]
        self._outcomes.ended = {0: end} if end and end.ending is not Ending.OPEN else {}
        self._acted, self._outcome = False, None
        return Turn(due, {self._policy: self._outcomes})

    def _capture(self, observation: Any, info: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return a copy of an observation by column, [*shape], if it fits the spec."""
        for field in self._adapter.fields:
            field.checked(observation, self._name)
        return self._adapter.capture(observation, info)


def _edges(action: Space) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest action, [*shape]."""
    if action.kind == "box":
        return bounds(action)
    high = np.reshape(action.sizes, action.shape) - 1
    return np.zeros_like(high), high
