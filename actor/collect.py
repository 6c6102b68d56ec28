"""Collecting: windows of steps become parcels, and greedy episodes become results. No sockets, no clock."""

from collections.abc import Generator, Mapping, Sequence
from typing import Protocol

import numpy as np

from actor.explore import Explorer
from actor.record import Frames, Recorder, Scores, results
from actor.seats import Seats
from common.spec import Spec
from common.trajectory import Parcel, Results
from common.weights import Version, Weights


class Answers(Protocol):
    """What answers for all seats in one call: the acting graph, or a stand-in."""

    def load(self, weights: Weights) -> None:
        """Answers by these weights from now on."""

    def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Outputs [N, *shape] for observations by column: [N, *shape], or [N, stack, *shape]. The arrays are the same in each call."""


class Collector:
    """Plays windows of `horizon` steps in all seats, each under one version of the weights."""

    def __init__(self, spec: Spec, seats: Seats, policy: Answers, explorer: Explorer) -> None:
        self.steps = 0  # the newest count of environment steps that was heard of; exploration follows it
        self._horizon, self._seats, self._policy, self._explorer = spec.horizon, seats, policy, explorer
        self._recorder = Recorder(spec.columns, len(seats), spec.horizon, spec.stack)
        self._scores = Scores(len(seats))
        self._next: Weights | None = None
        self._version: Version | None = None
        self._frames = Frames(seats.reset().observations, spec.stack)

    def use(self, weights: Weights) -> None:
        """Acts on these weights from the next window on, so that no trajectory mixes two versions."""
        self._next = weights
        self.steps = weights.steps

    def window(self) -> Generator[None, None, Parcel]:
        """Plays one window, yielding after every step so that the caller can look after its sockets; returns the parcel."""
        version = self._swap()
        self._explorer.begin(self._horizon, self.steps)
        self._recorder.begin(self._frames)
        for t in range(self._horizon):
            actions = self._explorer.choose(t, self._policy.answer(self._frames.stacks))
            step = self._seats.step(actions)
            self._recorder.add(actions, step)
            self._scores.add(step)
            self._frames.add(step)
            yield
        return self._recorder.parcel(version, self._scores.take())

    def _swap(self) -> Version:
        if self._next is not None:
            self._policy.load(self._next)
            self._version, self._next = self._next.version, None
        if self._version is None:
            raise ValueError("a window needs weights: call use() first")
        return self._version


class Evaluator:
    """Plays whole greedy episodes under one version and brings home their results only."""

    def __init__(self, spec: Spec, seats: Seats, policy: Answers, greedy: Explorer) -> None:
        self._spec, self._seats, self._policy, self._greedy = spec, seats, policy, greedy

    def evaluate(self, weights: Weights) -> Generator[None, None, Parcel]:
        """Plays the spec's number of episodes, yielding after every step; returns a parcel of results without rows.

        Each seat has its share of the episodes from the start: taking the first that finish would count the short ones.
        """
        self._policy.load(weights)
        shares = [len(range(seat, self._spec.evaluation.episodes, len(self._seats))) for seat in range(len(self._seats))]
        finished: list[tuple[float, int]] = []
        frames = Frames(self._seats.reset().observations, self._spec.stack)
        scores = Scores(len(self._seats))
        while any(shares):
            self._greedy.begin(1, weights.steps)
            step = self._seats.step(self._greedy.choose(0, self._policy.answer(frames.stacks)))
            frames.add(step)
            for seat, score in scores.add(step).items():
                if shares[seat]:
                    shares[seat] -= 1
                    finished.append(score)
            yield
        return _without_rows(self._spec, weights.version, results(finished))


def _without_rows(spec: Spec, version: Version, scores: Results) -> Parcel:
    columns = {column.name: np.zeros((0, *column.shape), column.dtype) for column in spec.columns}
    return Parcel(version.epoch, version.number, np.zeros(0, np.int32), np.zeros(0, np.uint8), columns, scores, evaluation=True)
