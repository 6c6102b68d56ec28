"""A seat whose world somebody else steps: chooses for it, and writes down what came of that. No sockets, no clock."""

from typing import Any

import numpy as np

from farflung.actor.acting.policy import Policy
from farflung.actor.collect import Play
from farflung.actor.connection.policy_client import Joined
from farflung.actor.recording import Scores
from farflung.actor.worlds.seats import End, Leaf, Translation
from farflung.common import heads
from farflung.common.data import seeds
from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.version import Version
from farflung.common.data.weights import Weights
from farflung.common.process.errors import ConfigurationError


class Seat:
    """One seat under one spec.

    An outcome is written down when the seat is shown what comes after it: only then the beginning of the next episode is known.
    """

    def __init__(self, joined: Joined, scores: Scores) -> None:
        spec = self._spec = joined.spec
        leaves = tuple(Leaf(key, space) for key, space in spec.observation.items())
        self._translation = Translation(leaves, spec.action, np.copy)
        heads.require(spec)
        rng = seeds.generator(spec.world.seed, "explore", joined.index, joined.start)
        self._explorer = heads.find(spec.head).explorer(spec, 1, joined.index, rng)
        self._greedy = heads.find(spec.head).greedy(spec)
        self._policy = Policy(spec.graph)
        self._scores = scores
        self._step = self._translation.step(1)  # its arrays are what the policy answers for
        self._play: Play | None = None  # from the first observation on
        self._weights: Weights | None = None
        self._plays = False  # whether a window is open
        self._actions: np.ndarray | None = None  # [1, *shape], chosen and not yet written down
        self._outcome: tuple[float, End] | None = (
            None  # what came of them, as far as it was recorded
        )

    @property
    def version(self) -> Version:
        """The weights that it acts on; 0.0 before the first action."""
        return self._weights.version if self._weights else Version(0, 0)

    def see(self, observation: Any) -> Parcel | None:
        """Show it what it is to act on; gives the window that was completed by this."""
        return self._settle(self._capture(observation))

    def choose(self, weights: Weights | None, steps: int, explore: bool) -> Any:
        """An action for what it sees; a window begins on these weights, or where there are none on those of the window before."""
        assert self._play is not None
        if not self._plays:
            self._weights = weights or self._weights
            assert self._weights is not None
            self._play.begin(self._weights, steps)
            self._plays = True
        self._actions = self._play.choose(None if explore else self._greedy)
        action = self._actions[0]
        return action.copy() if self._spec.action.shape else int(action)

    def record(
        self, reward: float, terminated: bool, truncated: bool, next_observation: Any
    ) -> None:
        """What came of the last action."""
        if self._actions is None or self._outcome is not None:
            raise ValueError("record() says what came of an action, once: call act() before it")
        ending = Ending.TERMINATED if terminated else Ending.TRUNCATED if truncated else Ending.OPEN
        self._outcome = float(reward), End(ending, self._capture(next_observation))

    def rest(self) -> Parcel | None:
        """What was recorded and is in no window yet: a shorter one."""
        if (
            self._outcome is not None
            and (parcel := self._settle(self._outcome[1].observation)) is not None
        ):
            return parcel
        return self._end_window() if self._plays else None

    def _settle(self, seen: dict[str, np.ndarray]) -> Parcel | None:
        """Write down what came of the last action, now that the seat sees something else."""
        for name, row in seen.items():
            self._step.observations[name][0] = row
        if self._play is None:
            self._play = Play(self._spec, self._step, self._policy, self._explorer)
        if self._actions is None:
            return None
        reward, end = self._outcome or (0.0, None)
        self._step.rewards[0] = reward
        self._step.lost = [] if end else [0]
        self._step.ended = {0: end} if end and end.ending is not Ending.OPEN else {}
        self._play.add(self._actions, self._step)
        self._scores.add(self._step)
        self._actions = self._outcome = None
        return self._end_window() if self._play.full else None

    def _end_window(self) -> Parcel:
        assert self._play is not None
        self._plays = False
        return self._play.parcel(self._scores.take())

    def _capture(self, observation: Any) -> dict[str, np.ndarray]:
        """A copy of an observation by column, each [*shape], if it is what the spec says."""
        for leaf in self._translation.leaves:
            self._check(leaf, observation)
        return self._translation.capture(observation)

    def _check(self, leaf: Leaf, observation: Any) -> None:
        world, sizes = f"the learner's {self._spec.world.environment}", leaf.space.sizes
        found = leaf.checked(observation, world)
        if sizes and not ((found >= 0) & (found < np.reshape(sizes, leaf.space.shape))).all():
            raise ConfigurationError(
                f"{leaf.column}: {found.tolist()} was shown, and {world} counts from 0 to below {list(sizes)}"
            )
