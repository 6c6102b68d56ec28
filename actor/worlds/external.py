"""A world of seats that a caller steps: its loop is owned from outside, see ActorSession."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from farflung.actor.worlds.measures import NONE, Measures
from farflung.actor.worlds.spaces import ObservationField, SpaceAdapter
from farflung.actor.worlds.taken import require_action
from farflung.actor.worlds.world import Due, End, Outcomes, Turn
from farflung.common.data.parcel import Ending
from farflung.common.data.spec import Spec
from farflung.common.process.errors import ConfigurationError

NO_INFO: Mapping[str, Any] = {}


class _Outcome(NamedTuple):
    """The consequence of an action."""

    reward: float
    ending: Ending
    columns: Mapping[str, np.ndarray]  # of the observation after it, [*shape]


@dataclass(slots=True)
class _Seat:
    """A seat since its last turn, and the episode that it is in."""

    acted: bool = False
    outcome: _Outcome | None = None
    is_lost: bool = False  # the last step: the caller said so
    torn: bool = False  # of the episode a step is lost, or was not the policy's
    steps: int = 0  # of the episode
    metrics: dict[str, list[float]] = field(default_factory=dict)  # of the episode

    @property
    def ended(self) -> bool:
        """True if the last step ended its episode."""
        return self.outcome is not None and self.outcome.ending is not Ending.OPEN


class ExternalWorld:
    """Turns out of what a caller shows and records, each of one seat.

    The outcome of an action is known when the caller shows what it acts on next: only then the
    beginning of the next episode is known.

    With `most_steps` the world serves evaluations: an episode that is so long is cut, and one that
    was torn counts as lost as a whole.
    """

    def __init__(
        self,
        spec: Spec,
        seats: int = 1,
        report: Callable[[str, str], None] = lambda kind, text: None,
        most_steps: int = 0,
    ) -> None:
        fields = tuple(ObservationField(key, space) for key, space in spec.observation.items())
        self.lost_steps = 0
        self._name, self._spec = f"the learner's {spec.world.environment}", spec
        self._adapter = SpaceAdapter(fields, spec.action, np.copy, spec.infos)
        self._measures = Measures(spec.metrics, report)
        self._most_steps = most_steps
        self._rows = self._adapter.rows(1)  # the same arrays in each turn
        self._seats = [_Seat() for _ in range(seats)]
        # One seat alone is all seats of its policy, and acts without a number.
        self._numbers = [np.array([seat]) if seats > 1 else None for seat in range(seats)]

    def see(self, observation: Any, info: Mapping[str, Any] = NO_INFO, seat: int = 0) -> Turn:
        """Return the turn in which a seat sees this: what came of its last action, and its due.

        An action without an outcome is lost, and what follows counts as another episode.
        """
        self._at(seat)
        return self._turn(seat, self._capture(observation, info))

    def require_acted(self, seat: int = 0) -> None:
        """Refuse an outcome where none is to come."""
        one = self._at(seat)
        if not one.acted or one.outcome is not None or one.is_lost:
            raise ValueError("record() takes what came of an action, once: call act() before it")

    def acted(self, seat: int = 0) -> None:
        """Note that a seat has acted on what it saw."""
        self._at(seat).acted = True

    def record(
        self, reward: float, ending: Ending, seen: Any, info: Mapping[str, Any], seat: int = 0
    ) -> Ending:
        """Note what came of the last action, `seen` after it; return how it is really ended."""
        self.require_acted(seat)
        one = self._at(seat)
        columns = self._capture(seen, info)
        one.steps += 1
        if ending is Ending.OPEN and one.steps == self._most_steps:
            ending = Ending.TRUNCATED
        if ending is not Ending.OPEN:
            values = zip(self._spec.metrics, self._measures.read(info), strict=True)
            one.metrics.update({name: [value] for name, value in values if value == value})
        one.outcome = _Outcome(float(reward), ending, columns)
        return ending

    def lose(self, seat: int = 0) -> bool:
        """Leave out the last step of an episode that goes on; return whether there is one."""
        one = self._at(seat)
        if not one.acted or one.is_lost or one.ended:
            return False
        one.is_lost, one.outcome = True, None
        self.lost_steps += 1
        return True

    def tear(self, seat: int = 0) -> None:
        """Note that the episode of a seat is not the policy's alone."""
        self._at(seat).torn = True

    def metric(self, name: str, value: Any, seat: int = 0) -> None:
        """Add a value to a metric of the episode of a seat; the metric is their mean."""
        if name not in self._spec.metrics:
            raise ConfigurationError(
                f"the learner knows no metric {name!r} of episodes: start it with --metrics {name}"
            )
        number = self._measures.number(name, value)
        self._at(seat).metrics.setdefault(name, []).append(number)

    def taken(self, action: Any) -> np.ndarray:
        """Return an action of the caller's as the spec has it, [*shape], or refuse it."""
        return require_action(action, self._adapter.action, self._name)

    def pending(self) -> set[int]:
        """Return the seats that have acted, and nothing was recorded yet."""
        return {seat for seat, one in enumerate(self._seats) if one.acted and one.outcome is None}

    def ended(self) -> Iterator[Turn]:
        """Take the turns of episodes that are over: they wait for no observation."""
        for seat, one in enumerate(self._seats):
            if one.ended or one.is_lost:
                yield Turn({}, self._outcomes(seat))

    def rest(self) -> Iterator[Turn]:
        """Take the turns of all outcomes that are in none yet."""
        yield from self.ended()
        for seat, one in enumerate(self._seats):
            if one.outcome is not None:
                yield self._turn(seat, one.outcome.columns)

    def restart(self) -> None:
        """Begin an episode in every seat."""
        self._seats = [_Seat() for _ in self._seats]

    def _at(self, seat: int) -> _Seat:
        if not 0 <= seat < len(self._seats):
            raise ValueError(f"there is no seat {seat}: the session has {len(self._seats)}, from 0")
        return self._seats[seat]

    def _turn(self, seat: int, seen: Mapping[str, np.ndarray]) -> Turn:
        for name, row in seen.items():
            self._rows[name][0] = row
        due = Due(self._rows, self._numbers[seat])
        return Turn({self._spec.policy: due}, self._outcomes(seat))

    def _outcomes(self, seat: int) -> Mapping[str, Outcomes]:
        """Return what came of the last action of a seat, once."""
        one = self._seats[seat]
        if not one.acted:
            return {}
        reward = np.array([one.outcome.reward if one.outcome else 0.0], np.float32)
        outcomes = Outcomes(reward, self._numbers[seat])
        if one.outcome is None or (one.ended and one.torn and self._most_steps):
            outcomes.lost = [seat]
        elif one.ended:
            _, ending, columns = one.outcome
            outcomes.ended = {seat: End(ending, columns, self._means(one))}
        self._seats[seat] = self._after(one)
        return {self._spec.policy: outcomes}

    def _after(self, one: _Seat) -> _Seat:
        """Return the state of a seat after its turn: in the same episode, or in another one."""
        if one.outcome is not None and not one.ended:
            return replace(one, acted=False, outcome=None)
        is_lost_unsaid = one.outcome is None and not one.is_lost
        self.lost_steps += is_lost_unsaid
        return _Seat(torn=is_lost_unsaid)  # the episode may go on: only its end is sure

    def _means(self, one: _Seat) -> tuple[float, ...]:
        """Return the metrics of an episode in the order of the spec; NaN: none."""
        found = ([v for v in one.metrics.get(n, ()) if v == v] for n in self._spec.metrics)
        return tuple(sum(values) / len(values) if values else NONE for values in found)

    def _capture(self, observation: Any, info: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return a copy of an observation by column, [*shape], if it fits the spec."""
        for each in self._adapter.fields:
            each.checked(observation, self._name)
        return self._adapter.capture(observation, info)
