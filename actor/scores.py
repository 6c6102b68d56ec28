"""Scores: returns and lengths of episodes."""

from collections.abc import Sequence

import numpy as np

from farflung.actor.worlds.world import Outcomes
from farflung.common.data.parcel import Results


class Scores:
    """Returns and lengths of running episodes and of finished ones. A lost one has no result."""

    def __init__(self, seats: int) -> None:
        self._returns = np.zeros(seats, np.float64)
        self._lengths = np.zeros(seats, np.int32)
        self._finished: list[tuple[float, int]] = []

    def add(self, outcomes: Outcomes) -> dict[int, tuple[float, int]]:
        """Count one step of each seat; return the scores of finished episodes, by seat."""
        if outcomes.seats is None:
            self._returns += outcomes.rewards
            self._lengths += 1
        else:
            self._returns[outcomes.seats] += outcomes.rewards
            self._lengths[outcomes.seats] += 1
        if not outcomes.ended and not outcomes.lost:
            return {}
        finished = {
            seat: (float(self._returns[seat]), int(self._lengths[seat])) for seat in outcomes.ended
        }
        self._finished += finished.values()
        begun = [*outcomes.ended, *outcomes.lost]
        self._returns[begun] = 0.0
        self._lengths[begun] = 0
        return finished

    def take(self) -> Results:
        """Return the episodes that finished since the last call."""
        finished, self._finished = self._finished, []
        return results(finished)


def results(finished: Sequence[tuple[float, int]]) -> Results:
    """Return finished episodes, each a return and a length, as columns."""
    return Results(
        np.array([r for r, _ in finished], np.float64), np.array([n for _, n in finished], np.int32)
    )
