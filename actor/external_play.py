"""The play of a world that its owner steps: its turns and its player. No sockets, no clock."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from farflung.actor.acting import spec_check
from farflung.actor.connection.port import Joined
from farflung.actor.play import Player, exploring
from farflung.actor.scores import Scores
from farflung.actor.worlds.external import NO_INFO, ExternalWorld
from farflung.actor.worlds.world import Due, Turn
from farflung.common import heads
from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import INTERVENED, Spec
from farflung.common.data.weights import Weights
from farflung.common.process.errors import ConfigurationError

Report = Callable[[str, str], None]


class ExternalPlay:
    """Windows of the steps that a caller shows and records."""

    def __init__(self, joined: Joined, world: ExternalWorld, player: Player) -> None:
        self.joined = joined
        self.open = False  # a window has begun
        self._spec, self._world, self._player = joined.spec, world, player
        self._greedy = heads.find(joined.spec.head).greedy(joined.spec)
        self._due: Due | None = None

    @property
    def full(self) -> bool:
        """True once the window has all its steps, until `end`."""
        return self.open and self._player.full

    def see(self, observation: Any, info: Mapping[str, Any] = NO_INFO) -> None:
        """Take in what the seat sees: what came of its last action, and what it acts on next."""
        self._take(self._world.see(observation, info))

    def forget(self) -> None:
        """Let the next frame begin a stack, unless a window goes on: none follows on the last."""
        if not self.open:
            self._player.forget()

    def begin(self, weights: Weights, steps: int) -> None:
        """Begin a window on these weights."""
        self._player.begin(weights, steps)
        self.open = True

    def act(self, explore: bool) -> Any:
        """Return the action for what is seen: an int for a discrete space, else an array."""
        assert self._due is not None
        action = self._player.act(self._due, None if explore else self._greedy)[0]
        self._world.acted()
        return action.copy() if self._spec.action.shape else int(action)

    def record(
        self,
        reward: float,
        ending: Ending,
        seen: Any,
        info: Mapping[str, Any] = NO_INFO,
        action: Any = None,
        intervened: bool | None = None,
    ) -> None:
        """Note what came of the last action, or of the one that was taken instead of it."""
        taken = None if action is None else self._world.taken(action)
        replaced = taken is not None and not np.array_equal(taken, self._player.chosen)
        if replaced or intervened:
            _require_kept(self._spec, bool(intervened))
        self._world.record(reward, ending, seen, info)
        if replaced or intervened:
            self._player.replace(
                self._player.chosen if taken is None else taken,
                replaced if intervened is None else bool(intervened),
            )

    def end(self) -> list[Parcel]:
        """End the window, and return it."""
        self.open = False
        return self._player.parcels()

    def rest(self) -> list[Parcel]:
        """Return all recorded steps that have left in no window yet."""
        turn = self._world.rest()
        if turn is not None:
            self._take(turn)
        return self.end() if self.open else []

    def _take(self, turn: Turn) -> None:
        policy = self._spec.policy
        self._due = turn.due.get(policy)
        self._player.record(turn.outcomes.get(policy), self._due)


def explored(joined: Joined, scores: Scores, report: Report) -> ExternalPlay:
    """Return the play of one seat that explores, at its place in a run."""
    spec = joined.spec
    spec_check.require_playable(spec)
    player = exploring(spec, 1, joined.index, joined.start, scores)
    return ExternalPlay(joined, ExternalWorld(spec, report), player)


def _require_kept(spec: Spec, marked: bool) -> None:
    """Refuse an intervention that the rows of this spec could not show."""
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
