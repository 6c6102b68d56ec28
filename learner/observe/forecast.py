"""The time that a run still takes to its goal, by present rates and the trend of results."""

from collections import deque
from collections.abc import Mapping

from farflung.learner.schedule.goal import Comparison, Condition

SAMPLE_S = 1.0  # between two samples of a metric
SAMPLES = 30  # of each metric that a trend is taken over; evaluations are fewer
LEAST = 3  # samples that make a trend


class Trend:
    """The slope of the latest values of a metric: least squares over time."""

    def __init__(self, samples: int = SAMPLES) -> None:
        self._samples: deque[tuple[float, float]] = deque(maxlen=samples)

    def add(self, seconds: float, value: float) -> None:
        """Take a value, at most one in a second."""
        if not self._samples or seconds - self._samples[-1][0] >= SAMPLE_S:
            self._samples.append((seconds, value))

    @property
    def per_second(self) -> float | None:
        """The slope, or None without enough values."""
        if len(self._samples) < LEAST:
            return None
        count = len(self._samples)
        at = sum(seconds for seconds, _ in self._samples) / count
        level = sum(value for _, value in self._samples) / count
        spread = sum((seconds - at) ** 2 for seconds, _ in self._samples)
        rise = sum((seconds - at) * (value - level) for seconds, value in self._samples)
        return rise / spread if spread else None


class Forecast:
    """Trends of the metrics of a condition, and of the steps of a run with a limit of steps."""

    def __init__(self, condition: Condition, steps: int = 0) -> None:
        self._condition, self._steps = condition, steps
        self._trends = {name: Trend() for name in {*condition.metrics, "steps"}}
        self._values: Mapping[str, float | None] = {}

    def look(self, seconds: float, values: Mapping[str, float | None]) -> None:
        """Take the values of this moment; a metric of results counts only when it has changed."""
        for name, trend in self._trends.items():
            value = values.get(name)
            if value is not None and (name != "evaluation" or value != self._values.get(name)):
                trend.add(seconds, value)
        self._values = dict(values)

    @property
    def seconds_left(self) -> float | None:
        """The seconds to the goal, if all goes on like this; None: it is not in sight."""
        ways = [
            [self._left(comparison) for comparison in together]
            for together in self._condition.alternatives
        ]
        if self._steps:
            ways.append([self._left(Comparison("steps", ">=", self._steps))])
        known = [max(way) for way in (_known(way) for way in ways) if way]
        return min(known) if known else None

    def _left(self, comparison: Comparison) -> float | None:
        """Return the seconds until a comparison holds; None: not at this trend."""
        if comparison.met(self._values):
            return 0.0
        value, slope = self._values.get(comparison.metric), self._trends[comparison.metric]
        if value is None or not slope.per_second:
            return None
        left = (comparison.number - value) / slope.per_second
        return left if left >= 0 else None


def _known(way: list[float | None]) -> list[float]:
    """Return the seconds of comparisons that must hold together; none if one is not in sight."""
    known = [seconds for seconds in way if seconds is not None]
    return known if len(known) == len(way) else []
