"""Statistics of counters and samples: rates, spreads, histories, and intervals of means."""

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

Z_975 = 1.959964  # the 97.5th percentile of the normal distribution


class Rate:
    """The growth of a cumulative counter over the last seconds."""

    def __init__(self, window_s: float = 10.0, points: int = 32) -> None:
        self._window_s = window_s
        # Closer samples replace one another, so that their number is bounded.
        self._step_s = window_s / points
        self._samples: deque[tuple[float, float]] = deque()

    def update(self, total: float, now: float) -> None:
        """Take the counter's value. Call this also while nothing grows: the rate must fall."""
        samples = self._samples
        if samples and total < samples[-1][1]:
            samples.clear()  # the counter was reset
        if len(samples) > 1 and now - samples[-2][0] < self._step_s:
            samples.pop()
        samples.append((now, total))
        while len(samples) > 2 and samples[1][0] <= now - self._window_s:
            samples.popleft()

    @property
    def per_second(self) -> float | None:
        """Return the rate, or None before the second sample."""
        if len(self._samples) < 2:
            return None
        (before, low), (after, high) = self._samples[0], self._samples[-1]
        return (high - low) / (after - before) if after > before else None


class Shares:
    """The shares of cumulative counters in their growth over the last seconds, such as of time."""

    def __init__(self) -> None:
        self._rates: dict[str, Rate] = {}

    def update(self, totals: Mapping[str, float], now: float) -> None:
        """Take the counters' values."""
        for part, total in totals.items():
            self._rates.setdefault(part, Rate()).update(total, now)

    @property
    def parts(self) -> dict[str, float]:
        """Return the share of each, 0 to 1; empty while nothing has grown."""
        grown = {part: rate.per_second or 0.0 for part, rate in self._rates.items()}
        whole = sum(grown.values())
        return {part: each / whole for part, each in grown.items()} if whole > 0 else {}


class Spread:
    """Mean and percentiles of the latest values."""

    def __init__(self, size: int = 1000) -> None:
        self._values: deque[float] = deque(maxlen=size)

    def add(self, value: float) -> None:
        """Take one value; drop the oldest when there are too many."""
        self._values.append(value)

    def extend(self, values: Iterable[float]) -> None:
        """Take several values, the newest last."""
        self._values.extend(values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def mean(self) -> float | None:
        """Return the mean, or None without values."""
        return fmean(self._values) if self._values else None

    def percentile(self, percent: float) -> float | None:
        """Return a percentile by nearest rank, or None without values."""
        if not self._values:
            return None
        rank = max(1, math.ceil(percent / 100 * len(self._values)))
        return sorted(self._values)[rank - 1]

    @property
    def p50(self) -> float | None:
        """Return the median by nearest rank."""
        return self.percentile(50)

    @property
    def p95(self) -> float | None:
        """Return the 95th percentile by nearest rank."""
        return self.percentile(95)


@dataclass(frozen=True, slots=True)
class Figure:
    """Values in three numbers."""

    mean: float
    spread: float | None  # standard deviation of the values; None: one value shows none
    count: int


def summary(values: Collection[float]) -> Figure:
    """Return the figure of one value or more. Sums are exact to the last digit of a double."""
    count, mean = len(values), fmean(values)
    if count < 2:
        return Figure(mean, None, count)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return Figure(mean, math.sqrt(squares / (count - 1)), count)


class History:
    """A whole series in at most `size` points.

    Each point is the mean of equally many values; their number doubles when the points run out.
    """

    def __init__(self, size: int = 40) -> None:
        self._size = size - size % 2  # points are merged in pairs
        self._points: list[float] = []
        self._each = 1
        self._sum = 0.0
        self._count = 0

    def add(self, value: float) -> None:
        """Take the next value of the series."""
        if len(self._points) == self._size:
            self._points = [
                (left + right) / 2
                for left, right in zip(self._points[::2], self._points[1::2], strict=True)
            ]
            self._each *= 2
        self._sum += value
        self._count += 1
        if self._count == self._each:
            self._points.append(self._sum / self._count)
            self._sum, self._count = 0.0, 0

    @property
    def points(self) -> tuple[float, ...]:
        """Return the series from its beginning; the last point may be the mean of fewer values."""
        last = (self._sum / self._count,) if self._count else ()
        return (*self._points, *last)


class Interval(NamedTuple):
    """A mean, and the range that holds the true one in 95 of 100 cases."""

    mean: float
    half: float  # its lower end is `mean - half`

    def __str__(self) -> str:
        """Return both with two digits of the half width, and one decimal or more.

        One value tells of no range.
        """
        if math.isinf(self.half):
            return f"{self.mean:.1f} (one value)"
        digits = min(6, max(1, 1 - math.floor(math.log10(self.half)))) if self.half > 0 else 1
        return f"{self.mean:.{digits}f} ± {self.half:.{digits}f}"

    def overlaps(self, other: "Interval") -> bool:
        """Return whether both can be of one true mean."""
        return abs(self.mean - other.mean) <= self.half + other.half


def confidence(values: Sequence[float]) -> Interval:
    """Return the mean of independent values with its 95 % interval, by Student's t.

    One value has an interval without end. Equal values have one of width 0: they show no spread,
    and t asks for nothing else.
    """
    mean = fmean(values)
    if len(values) < 2:
        return Interval(mean, math.inf)
    return Interval(mean, t_975(len(values) - 1) * stdev(values) / math.sqrt(len(values)))


class Share(NamedTuple):
    """A share of a count, and the range that holds the true one in 95 of 100 cases."""

    share: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return all three with three decimals."""
        return f"{self.share:.3f} ({self.low:.3f} to {self.high:.3f})"


def share(part: int, count: int) -> Share:
    """Return how much a part is of a count of independent cases, with Wilson's 95 % interval.

    It has a width also where the part is nothing or all of it.
    """
    found, squared = part / count, Z_975**2 / count
    centre = (found + squared / 2) / (1 + squared)
    half = math.sqrt(squared * (found * (1 - found) + squared / 4)) / (1 + squared)
    return Share(found, max(0.0, centre - half), min(1.0, centre + half))


def t_975(freedom: int) -> float:
    """Return the 97.5th percentile of Student's t, to three digits.

    One and two degrees of freedom have a closed form. The others take the expansion around the
    normal distribution (Abramowitz and Stegun, 26.7.5).
    """
    if freedom == 1:
        return math.tan(0.475 * math.pi)
    if freedom == 2:
        return 0.95 * math.sqrt(2 / (1 - 0.95**2))
    z = Z_975
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(freedom) ** power for power, term in enumerate(terms, 1))
