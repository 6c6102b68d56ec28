"""Evaluation: whole greedy episodes under one version, of which only the results are kept."""

import numpy as np

from farflung.actor.acting.memory import SeatMemory
from farflung.actor.acting.policy import ActingPolicy, Policy
from farflung.actor.scores import Score, Scores, results
from farflung.actor.worlds.world import Due, Outcomes
from farflung.common import heads
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import ACTION_MASK, Spec
from farflung.common.data.weights import Version, Weights
from farflung.common.heads import Chooser, masks


class Evaluator:
    """Plays the spec's number of episodes whenever they are due.

    Each seat has its share of them from the start: to take the first that finish would count the
    short ones.
    """

    owes: bool | None = None  # it plays no rounds

    def __init__(self, spec: Spec, seats: int, policy: ActingPolicy, greedy: Chooser) -> None:
        self._spec, self._policy, self._greedy = spec, policy, greedy
        self._masked = bool(spec.infos) and heads.masked(spec)
        self._seats = seats
        self._next = 0  # steps at which episodes are due
        self._progress = 0  # of exploration
        self._version = Version(0, 0)
        self.full = True  # all episodes are played
        self._shares: list[int] = []  # episodes that are still to be played, by seat
        self._finished: list[Score] = []
        self._restart()

    @property
    def finished(self) -> int:
        """Episodes that have ended."""
        return len(self._finished)

    @property
    def left(self) -> int:
        """Episodes of the present evaluation that have not ended."""
        return sum(self._shares)

    def share(self, seat: int) -> int:
        """Return how many of them a seat has still to play."""
        return self._shares[seat]

    def wants(self, weights: Weights) -> bool:
        """Return whether the spec's number of steps has passed since the last evaluation."""
        return self._spec.evaluation.every > 0 and weights.steps >= self._next

    def begin(self, weights: Weights, steps: int, spare: bool = False) -> None:
        """Start an evaluation on these weights. The world is reset after it."""
        self._next = weights.steps + self._spec.evaluation.every
        self._policy.load(weights)
        self._version = weights.version
        exploration = self._spec.exploration
        self._progress = exploration.progress(weights.steps, weights.version.number)
        episodes = self._spec.evaluation.episodes
        self._shares = [len(range(seat, episodes, self._seats)) for seat in range(self._seats)]
        self._finished, self.full = [], not any(self._shares)
        self._restart()

    def act(self, due: Due) -> np.ndarray:
        """Return the best actions [n, *shape] for the due seats."""
        self._greedy.begin(1, self._progress)
        at = 0 if due.seats is None else (np.zeros_like(due.seats), due.seats)
        outputs = self._policy.answer(self._memory.inputs(due))
        self._memory.keep(outputs, due.seats)
        if not self._masked:
            return self._greedy.choose(at, outputs).actions
        mask, environment = due.columns[ACTION_MASK], self._spec.world.environment
        return masks.choose(self._greedy, at, outputs, mask, environment).actions

    def record(self, outcomes: Outcomes | None, due: Due | None) -> None:
        """Count what became of seats, and see what is due now."""
        if outcomes is not None:
            for seat, score in self._scores.add(outcomes).items():
                if self._shares[seat]:
                    self._shares[seat] -= 1
                    self._finished.append(score)
                    self.full = not any(self._shares)
            for seat in outcomes.absent:  # an episode without it counts, with no result
                self._shares[seat] = max(0, self._shares[seat] - 1)
                self.full = not any(self._shares)
            self._memory.forget([*outcomes.ended, *outcomes.lost])
        if due is not None:
            self._memory.see(due)

    def parcels(self) -> list[Parcel]:
        """Return the results, in a parcel without rows."""
        columns = {
            column.name: np.zeros((0, *column.shape), column.dtype) for column in self._spec.columns
        }
        nothing = np.zeros(0, np.int32), np.zeros(0, np.uint8), columns
        finished = results(self._finished, self._spec.metrics)
        return [Parcel(self._version, *nothing, finished, evaluation=True)]

    def _restart(self) -> None:
        """Forget all episodes: the world is reset."""
        self._memory = SeatMemory(self._spec, self._seats)
        self._scores = Scores(self._seats)


def greedy(spec: Spec, seats: int) -> Evaluator:
    """Return an evaluator of a spec's policy."""
    heads.require(spec)
    return Evaluator(spec, seats, Policy(spec.graph), heads.find(spec.head).greedy(spec))
