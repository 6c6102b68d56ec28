"""Collecting: windows of steps become parcels, and greedy episodes become results. No sockets, no clock."""

from collections.abc import Generator, Mapping, Sequence
from typing import Protocol

import numpy as np

from farflung.actor.recording import Frames, Recorder, Scores, results
from farflung.actor.worlds.seats import Seats, Step
from farflung.common.data.parcel import Parcel, Results
from farflung.common.data.spec import Spec
from farflung.common.data.version import Version
from farflung.common.data.weights import Weights
from farflung.common.heads import Chooser
from farflung.common.process.errors import ConfigurationError


class Answers(Protocol):
    """What answers for all seats in one call: the acting graph, or a stand-in."""

    def load(self, weights: Weights) -> None:
        """Answers by these weights from now on."""

    def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Outputs [N, *shape] for observations by column: [N, *shape], or [N, stack, *shape]. The arrays are the same in each call."""


class Play:
    """Chooses for all seats and writes down what becomes of it, window after window. Whoever owns the loop steps the seats."""

    def __init__(self, spec: Spec, first: Step, policy: Answers, explorer: Chooser) -> None:
        if spec.extras:
            names = ", ".join(column.name for column in spec.extras)
            raise ConfigurationError(
                f"the learner asks for {names}, which this release of the actor does not record"
            )
        self.version: Version | None = None  # that the window is played under
        self._horizon, self._policy, self._explorer = spec.horizon, policy, explorer
        self._recorder = Recorder(spec.columns, len(first.rewards), spec.horizon, spec.stack)
        self._frames = Frames(first.observations, spec.stack)

    def begin(self, weights: Weights, steps: int) -> None:
        """Starts a window on these weights; exploration follows the steps that the learner has counted."""
        if weights.version != self.version:
            self._policy.load(weights)
            self.version = weights.version
        self._explorer.begin(self._horizon, steps)
        self._recorder.begin(self._frames)

    def choose(self, explorer: Chooser | None = None) -> np.ndarray:
        """Actions [N, *shape] for what the seats see now, by another explorer than usual if one is given."""
        answer = self._policy.answer(self._frames.stacks)
        return (explorer or self._explorer).choose(self._recorder.steps, answer).actions

    def add(self, actions: np.ndarray, step: Step) -> None:
        """Writes down what became of these actions."""
        self._recorder.add(actions, step)
        self._frames.add(step)

    @property
    def full(self) -> bool:
        """Whether the window has all its steps."""
        return self._recorder.steps == self._horizon

    def parcel(self, scores: Results) -> Parcel:
        """The window as far as it has come."""
        assert self.version is not None
        return self._recorder.parcel(self.version, scores)


class Collector:
    """Plays windows of `horizon` steps in all seats, each under one version of the weights."""

    def __init__(self, spec: Spec, seats: Seats, policy: Answers, explorer: Chooser) -> None:
        self.steps = (
            0  # the newest count of environment steps that was heard of; exploration follows it
        )
        self._seats = seats
        self._weights: Weights | None = None
        self._scores = Scores(len(seats))
        self._play = Play(spec, seats.reset(), policy, explorer)

    def use(self, weights: Weights) -> None:
        """Acts on these weights from the next window on, so that no trajectory mixes two versions."""
        self._weights = weights
        self.steps = weights.steps

    def window(self) -> Generator[None, None, Parcel]:
        """Plays one window, yielding after every step so that the caller can look after its sockets; returns the parcel."""
        if self._weights is None:
            raise ValueError("a window needs weights: call use() first")
        play = self._play
        play.begin(self._weights, self.steps)
        while not play.full:
            actions = play.choose()
            step = self._seats.step(actions)
            play.add(actions, step)
            self._scores.add(step)
            yield
        return play.parcel(self._scores.take())


class Evaluator:
    """Plays whole greedy episodes under one version and brings home their results only."""

    def __init__(self, spec: Spec, seats: Seats, policy: Answers, greedy: Chooser) -> None:
        self._spec, self._seats, self._policy, self._greedy = spec, seats, policy, greedy
        self._due = 0  # at so many steps

    def is_due(self, weights: Weights) -> bool:
        """Whether evaluations are wanted, and as many steps as the spec says were taken since the last one."""
        return self._spec.evaluation.every > 0 and weights.steps >= self._due

    def evaluate(self, weights: Weights) -> Generator[None, None, Parcel]:
        """Plays the spec's number of episodes, yielding after every step; returns a parcel of results without rows.

        Each seat has its share of the episodes from the start: taking the first that finish would count the short ones.
        """
        self._due = weights.steps + self._spec.evaluation.every
        self._policy.load(weights)
        shares = [
            len(range(seat, self._spec.evaluation.episodes, len(self._seats)))
            for seat in range(len(self._seats))
        ]
        finished: list[tuple[float, int]] = []
        frames = Frames(self._seats.reset().observations, self._spec.stack)
        scores = Scores(len(self._seats))
        while any(shares):
            self._greedy.begin(1, weights.steps)
            choice = self._greedy.choose(0, self._policy.answer(frames.stacks))
            step = self._seats.step(choice.actions)
            frames.add(step)
            for seat, score in scores.add(step).items():
                if shares[seat]:
                    shares[seat] -= 1
                    finished.append(score)
            yield
        return _without_rows(self._spec, weights.version, results(finished))


def _without_rows(spec: Spec, version: Version, scores: Results) -> Parcel:
    columns = {column.name: np.zeros((0, *column.shape), column.dtype) for column in spec.columns}
    return Parcel(
        version,
        np.zeros(0, np.int32),
        np.zeros(0, np.uint8),
        columns,
        scores,
        evaluation=True,
    )
