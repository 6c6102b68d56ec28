"""The opponents of an actor's games: they act for seats of which nothing is recorded."""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from msgspec import structs

from farflung.actor.acting.memory import SeatMemory
from farflung.actor.acting.policy import Policy
from farflung.actor.scripts import Scripted, any_action, registered
from farflung.actor.worlds.world import Due
from farflung.common import heads
from farflung.common.data.pool import Opponent
from farflung.common.data.selfplay import scripts_of
from farflung.common.data.spec import ACTION_MASK, Exploration, Spec
from farflung.common.data.weights import Version, Weights
from farflung.common.heads import masks

IDLE = 16  # sessions of archived versions that are kept beside those of games that go on


class Opponents:
    """Answers for seats by the opponent of each one: random actions, a script, archived weights.

    Archived versions explore by a rule of their own, with a random stream of their own.
    """

    def __init__(self, spec: Spec, seats: int, index: int, rng: np.random.Generator) -> None:
        assert spec.selfplay is not None
        scripts = {name: registered(name) for name in scripts_of(spec.selfplay)}
        self._scripts: dict[str | None, Scripted] = {
            name: Scripted(spec, each, name, rng) for name, each in scripts.items()
        }
        # The one without a name takes any action.
        self._scripts[None] = Scripted(spec, any_action(spec.action), "random", rng)
        share = spec.selfplay.exploration
        theirs = structs.replace(spec, exploration=Exploration(share, share, 0))
        self._spec, self._rng = spec, rng
        self._masked = bool(spec.infos) and heads.masked(spec)
        self._explorer = heads.find(spec.head).explorer(theirs, seats, index, rng)
        self._memory = SeatMemory(spec, seats)
        self._sessions: OrderedDict[Version, Policy] = OrderedDict()  # the latest used last

    @property
    def held(self) -> Collection[Version]:
        """The archived versions that can play."""
        return self._sessions.keys()

    def hold(self, weights: Weights, in_use: Collection[Version]) -> None:
        """Let an archived version play; beyond a bound, drop those that play in no game."""
        policy = Policy(self._spec.graph)
        policy.load(weights)
        self._sessions[weights.version] = policy
        idle = [v for v in self._sessions if v not in in_use and v != weights.version]
        for version in idle[: max(0, len(idle) - IDLE)]:
            del self._sessions[version]

    def forget(self, seats: Sequence[int]) -> None:
        """Let the next frame of these seats begin an episode."""
        self._memory.forget(seats)

    def act(self, due: Due, opponents: Sequence[Opponent]) -> np.ndarray:
        """Return actions [n, *shape] for due seats, each by its own opponent."""
        assert due.seats is not None
        self._memory.see(due)
        stacks, space = self._memory.stacks(due), self._spec.action
        self._explorer.begin(1, 0)
        actions = np.zeros((len(due.seats), *space.shape), space.dtype)
        places: dict[Opponent, list[int]] = {}
        for place, opponent in enumerate(opponents):
            places.setdefault(opponent, []).append(place)
        for opponent, rows in places.items():
            if opponent.version is not None:
                actions[rows] = self._answer(opponent.version, due, stacks, rows)
            else:
                actions[rows] = self._scripts[opponent.name].act(_part(due, rows))
        return actions

    def _answer(
        self, version: Version, due: Due, stacks: Mapping[str, np.ndarray], rows: list[int]
    ) -> np.ndarray:
        assert due.seats is not None
        self._sessions.move_to_end(version)
        inputs = {column.name: stacks[column.name][rows] for column in self._spec.observations}
        seats = due.seats[rows]
        outputs = self._sessions[version].answer(inputs | self._memory.state(seats))
        self._memory.keep(outputs, seats)
        at = np.zeros(len(rows), np.int64), seats
        if not self._masked:
            return self._explorer.choose(at, outputs).actions
        mask, environment = due.columns[ACTION_MASK][rows], self._spec.world.environment
        return masks.choose(self._explorer, at, outputs, mask, environment).actions


def _part(due: Due, rows: list[int]) -> Due:
    """Return some of the due seats."""
    assert due.seats is not None
    return Due({name: column[rows] for name, column in due.columns.items()}, due.seats[rows])
