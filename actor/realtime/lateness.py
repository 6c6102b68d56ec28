"""The distribution of delays in bounded memory: counts by size, and the worst one."""

import math

SMALLEST_S = 1e-6
GROWTH = 1.05  # from one edge to the next: a percentile is at most 5 % too high
LARGEST_S = 1000.0  # later ones count as this, but for the worst
EDGES = math.ceil(math.log(LARGEST_S / SMALLEST_S) / math.log(GROWTH)) + 1


class Lateness:
    """Percentiles of delays, of any number of them."""

    def __init__(self) -> None:
        self.count = 0
        self.worst_s = 0.0
        self._counts = [0] * EDGES  # at an edge: those up to it, and above the edge before

    def add(self, seconds: float) -> None:
        """Count one delay."""
        self.count += 1
        self.worst_s = max(self.worst_s, seconds)
        self._counts[_place(seconds)] += 1

    def percentile(self, percent: float) -> float:
        """Return a percentile by nearest rank in seconds, rounded up to an edge; 0 without any."""
        rank = max(1, math.ceil(percent / 100 * self.count))
        seen = 0
        for place, count in enumerate(self._counts):
            seen += count
            if seen >= rank:
                return min(_edge(place), self.worst_s)
        return 0.0

    @property
    def p50_s(self) -> float:
        """Return the median."""
        return self.percentile(50)

    @property
    def p99_s(self) -> float:
        """Return the 99th percentile."""
        return self.percentile(99)


def _place(seconds: float) -> int:
    """Return the place of the lowest edge that is not below a delay."""
    if seconds <= SMALLEST_S:
        return 0
    # Rounded, so that an edge itself does not count as above it.
    place = math.ceil(round(math.log(seconds / SMALLEST_S) / math.log(GROWTH), 6))
    return min(place, EDGES - 1)


def _edge(place: int) -> float:
    return SMALLEST_S * GROWTH**place
