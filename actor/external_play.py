"""The play of a world that its owner steps: its turns and its player. No sockets, no clock."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np

from farflung.actor import evaluator
from farflung.actor.acting import spec_check
from farflung.actor.acting.policy import ActingPolicy, Policy
from farflung.actor.connection.port import Joined, Newest
from farflung.actor.evaluator import Evaluator
from farflung.actor.play import Player, exploring
from farflung.actor.playing import Playing
from farflung.actor.scores import Scores
from farflung.actor.worlds.external import NO_INFO, ExternalWorld
from farflung.actor.worlds.world import Due, Turn
from farflung.common import heads
from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import INTERVENED
from farflung.common.data.weights import Weights
from farflung.common.process.errors import ConfigurationError

Report = Callable[[str, str], None]
Prepare = Callable[[Weights], None]
Timed = Callable[[ActingPolicy], ActingPolicy]  # puts a stopwatch around a policy
Played = TypeVar("Played", bound=Playing)


class ExternalPlay(Generic[Played]):
    """A player for the seats that a caller shows and records; its two forms are below."""

    def __init__(self, joined: Joined, world: ExternalWorld, player: Played) -> None:
        self.joined, self.world = joined, world
        self.open = False  # a window or an evaluation has begun
        self.void: set[int] = set()  # seats with an action for a run that is over
        self._spec, self._player = joined.spec, player
        self._due: Due | None = None
        self._chosen: dict[int, np.ndarray] = {}  # by seat: the last action

    def see(self, observation: Any, info: Mapping[str, Any] = NO_INFO, seat: int = 0) -> None:
        """Take in what a seat sees: what came of its last action, and what it acts on next."""
        turn = self.world.see(observation, info, seat)
        self.void.discard(seat)
        self._take(turn)

    def act(self, explore: bool, seat: int = 0) -> Any:
        """Return the action for what was seen: an int for a discrete space, else an array."""
        assert self._due is not None
        self._chosen[seat] = chosen = self._choose(self._due, explore)[0].copy()
        self.world.acted(seat)
        return chosen.copy() if self._spec.action.shape else int(chosen)

    def record(
        self,
        reward: float,
        ending: Ending,
        seen: Any,
        info: Mapping[str, Any] = NO_INFO,
        *,
        seat: int = 0,
        action: Any = None,
        intervened: bool | None = None,
    ) -> Ending:
        """Note what came of the last action, or of the one that was taken instead of it.

        Return how the step is really ended.
        """
        if seat in self.void:
            self.void.discard(seat)
            return ending
        self.world.require_acted(seat)
        taken = None if action is None else self.world.taken(action)
        replaced = taken is not None and not np.array_equal(taken, self._chosen[seat])
        if replaced or intervened:
            self._require_kept(bool(intervened))
        ending = self.world.record(reward, ending, seen, info, seat)
        if replaced or intervened:
            self._replace(
                self._chosen[seat] if taken is None else taken,
                replaced if intervened is None else bool(intervened),
                seat,
            )
        return ending

    def lose(self, seat: int = 0) -> bool:
        """Leave out the last step of a seat; return whether there is one."""
        self.void.discard(seat)
        return self.world.lose(seat)

    def _take(self, turn: Turn) -> None:
        self._due = turn.due.get(self._spec.policy)
        self._player.record(turn.outcomes.get(self._spec.policy), self._due)

    def _choose(self, due: Due, explore: bool) -> np.ndarray:
        """Return the action [1, *shape] of the seat that is due."""
        return self._player.act(due)

    def _require_kept(self, marked: bool) -> None:
        """Refuse an intervention of which nothing would be kept."""

    def _replace(self, action: np.ndarray, intervened: bool, seat: int) -> None:
        """Note that another action [*shape] was taken than the chosen one."""


class Windows(ExternalPlay[Player]):
    """Steps for the learner, in windows that one version of the weights plays."""

    leaving = False  # a window is over, and room for the next one is to be waited for

    def __init__(
        self, joined: Joined, world: ExternalWorld, player: Player, prepare: Prepare
    ) -> None:
        """Begin to play. `prepare` builds what a version needs aside, in another thread."""
        super().__init__(joined, world, player)
        self.prepare = prepare
        self._greedy = heads.find(joined.spec.head).greedy(joined.spec)

    @property
    def full(self) -> bool:
        """True once the window has all its steps, until `end`."""
        return self.open and self._player.full

    def wants(self, newest: Newest) -> bool:
        """Return whether a window may begin: in the sync mode, a round has so many."""
        if self._spec.rounds is None:
            return True
        weights = newest.weights if newest.joined is self.joined else None
        return weights is not None and self._player.wants(weights)

    def forget(self, seat: int = 0) -> None:
        """Let the next frame begin a stack, unless a window goes on: none follows on the last."""
        if not self.open:
            self._player.forget(seat)

    def begin(self, weights: Weights, steps: int) -> None:
        """Begin a window on these weights."""
        self._player.begin(weights, steps)
        self.open = True

    def end(self) -> list[Parcel]:
        """End the window, and return it."""
        self.open = False
        return self._player.parcels()

    def rest(self) -> list[Parcel]:
        """Return all recorded steps that have left in no window yet."""
        for turn in self.world.rest():
            self._take(turn)
        return self.end() if self.open else []

    def _choose(self, due: Due, explore: bool) -> np.ndarray:
        return self._player.act(due, None if explore else self._greedy)

    def _require_kept(self, marked: bool) -> None:
        """Refuse an intervention that the rows of this spec could not show."""
        spec = self._spec
        if INTERVENED in spec.extras:
            return
        if marked:
            raise ConfigurationError(
                "intervened=True, and the learner records no interventions: start it with "
                "--interventions"
            )
        computed = heads.find(spec.head).columns(spec)
        if own := [extra.name for extra in spec.extras if extra in computed]:
            raise ConfigurationError(
                f"the learner records {own[0]} of the policy's own action, and could not tell the "
                "steps with another one: start it with --interventions"
            )

    def _replace(self, action: np.ndarray, intervened: bool, seat: int) -> None:
        self._player.replace(action, intervened, seat)


class Evaluations(ExternalPlay[Evaluator]):
    """Greedy episodes of which only the results are kept, when the learner wants them.

    An episode with an action of another, or with a step that was not recorded, has no result.
    """

    def see(self, observation: Any, info: Mapping[str, Any] = NO_INFO, seat: int = 0) -> None:
        """Take in what a seat sees, in an evaluation that has begun."""
        if not self.open:
            raise ValueError("no evaluation goes on: call begin_evaluation() and wait for one")
        super().see(observation, info, seat)

    def left(self, seat: int) -> int:
        """Return how many episodes a seat has still to play."""
        return self._player.share(seat) if self.open else 0

    def begin(self, weights: Weights, steps: int) -> bool:
        """Begin an evaluation on these weights if one is due; return whether one goes on."""
        if not self.open and self._player.wants(weights):
            self.world.restart()
            self._player.begin(weights, steps)
            self.open = True
        return self.open

    def rest(self) -> list[Parcel]:
        """Count the episodes that have ended; return the results once all have."""
        for turn in self.world.ended():
            self._take(turn)
        if not (self.open and self._player.full):
            return []
        self.open = False
        return self._player.parcels()

    def _replace(self, action: np.ndarray, intervened: bool, seat: int) -> None:
        self.world.tear(seat)


def windows(
    joined: Joined, seats: int, scores: Scores, report: Report, timed: Timed = lambda policy: policy
) -> Windows:
    """Return the play of seats that explore, at their place in a run."""
    spec = joined.spec
    spec_check.require_playable(spec)
    policy = Policy(spec.graph)
    player = exploring(spec, seats, joined.index, joined.start, scores, timed(policy))
    return Windows(joined, ExternalWorld(spec, seats, report), player, policy.prepare)


def evaluations(joined: Joined, seats: int, report: Report) -> Evaluations:
    """Return the play of seats that evaluate the policy of a run."""
    spec = joined.spec
    spec_check.require_playable(spec)
    world = ExternalWorld(spec, seats, report, most_steps=spec.evaluation.max_steps)
    return Evaluations(joined, world, evaluator.greedy(spec, seats))
