"""Scores of episodes: returns, lengths and metrics, by seat and then as results."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from farflung.actor.worlds.world import Outcomes
from farflung.common.data.parcel import Results


class Score(NamedTuple):
    """The result of one episode."""

    total: float  # the return
    length: int
    metrics: tuple[float, ...] = ()


class Scores:
    """Returns and lengths of running episodes and of finished ones. A lost one has no result."""

    def __init__(self, seats: int) -> None:
        self._returns = np.zeros(seats, np.float64)
        self._turns = 0  # in which all seats took a step
        self._further = np.zeros(seats, np.int64)  # steps, less the turns before the episode
        self._finished: list[Score] = []

    def add(self, outcomes: Outcomes) -> dict[int, Score]:
        """Count one step of each seat; return the scores of finished episodes, by seat."""
        if outcomes.seats is None:
            # Not in place: for one seat numpy takes twice as long to find out that it may.
            self._returns = self._returns + outcomes.rewards
            self._turns += 1
        else:
            self._returns[outcomes.seats] += outcomes.rewards
            self._further[outcomes.seats] += 1
        if not outcomes.ended and not outcomes.lost:
            return {}
        finished = {
            seat: Score(float(self._returns[seat]), self._length(seat), end.metrics)
            for seat, end in outcomes.ended.items()
        }
        self._finished += finished.values()
        for seat in (*outcomes.ended, *outcomes.lost):  # few: sooner done one by one
            self._returns[seat], self._further[seat] = 0.0, -self._turns
        return finished

    def _length(self, seat: int) -> int:
        return self._turns + int(self._further[seat])

    def take(self, metrics: Sequence[str] = ()) -> Results:
        """Return the episodes that finished since the last call, with these metrics."""
        finished, self._finished = self._finished, []
        return results(finished, metrics)


def results(finished: Sequence[Score], metrics: Sequence[str] = ()) -> Results:
    """Return finished episodes as columns; each has all metrics, in order."""
    return Results(
        np.array([score.total for score in finished], np.float64),
        np.array([score.length for score in finished], np.int32),
        {
            name: np.array([score.metrics[place] for score in finished], np.float64)
            for place, name in enumerate(metrics if finished else ())
        },
    )
