"""Statistics of the parcels that came in: returns, lengths, policy lag, evaluations."""

from collections import deque

import numpy as np

from farflung.common.data.fields import MAGNITUDE
from farflung.common.data.parcel import Parcel, Results
from farflung.common.data.spec import OBSERVATIONS
from farflung.common.data.statistics import Figure, History, Interval, Spread, confidence
from farflung.common.data.weights import Version
from farflung.learner.api.callback import Episode
from farflung.learner.core.curves import of_episodes
from farflung.learner.core.own_metrics import Metrics, figures, known
from farflung.learner.selfplay.standings import Standings

RECENT = 100  # episodes that a mean return is taken over
SUSPICIOUS_ROWS = 1000  # after so many rows, observations that never differed are reported


class Progress:
    """The figures that parcels report about the policy."""

    def __init__(self) -> None:
        self.episodes = 0
        self.returns: deque[float] = deque(maxlen=RECENT)
        self.lengths: deque[float] = deque(maxlen=RECENT)
        self.history, self.evaluations = History(), History()
        self.metrics = Metrics()  # of episodes, by the names of their means
        self.lag = Spread()  # versions between that of a parcel or gradients and the newest
        self.evaluation: EvaluationResult | None = None  # the newest
        self._candidate: EvaluationResult | None = None  # the best since the last look
        self.heard: list[Episode | EvaluationResult] | None = None
        """All since the last look, in their order; None: there are no callbacks to tell."""
        self.standings = Standings()
        self.constant_observations = ConstantObservations()

    def count(self, parcel: Parcel, steps: int, newest: Version) -> None:
        """Add the results of a parcel that came in after so many steps."""
        if parcel.evaluation:
            if len(parcel.results.returns):
                self._evaluated(EvaluationResult(steps, parcel.version, parcel.results))
            return
        self.add(parcel.results, parcel.version, newest)
        self.constant_observations.check(parcel)

    def add(self, results: Results, version: Version, newest: Version) -> None:
        """Add finished episodes, and the lag of the version that collected or learned."""
        if version.epoch == newest.epoch:
            self.lag.add(newest.number - version.number)
        if len(results.returns):  # most small parcels have none
            self._finished(results, version)

    def _finished(self, results: Results, version: Version) -> None:
        returns = _bounded(results.returns).tolist()
        self.episodes += len(returns)
        self.returns.extend(returns)
        self.lengths.extend(results.lengths.tolist())
        for value in returns:
            self.history.add(value)
        if self.heard is not None:
            self.heard += map(Episode, returns, results.lengths.tolist())
        self.standings.add(results, version)
        for metric, reported in results.metrics.items():
            if values := known(reported):
                self.metrics.add(of_episodes(metric), values)

    def take_candidate(self) -> "EvaluationResult | None":
        """Return the best evaluation since the last call, the first of equal ones."""
        candidate, self._candidate = self._candidate, None
        return candidate

    @property
    def return_mean(self) -> float | None:
        """The mean return of the latest episodes."""
        return sum(self.returns) / len(self.returns) if self.returns else None

    @property
    def return_spread(self) -> float | None:
        """The standard deviation of the latest returns."""
        return float(np.std(self.returns)) if self.returns else None

    @property
    def length_mean(self) -> float | None:
        """The mean length of the latest episodes."""
        return sum(self.lengths) / len(self.lengths) if self.lengths else None

    def _evaluated(self, result: "EvaluationResult") -> None:
        self.evaluation = result
        self.evaluations.add(result.mean)
        if self.heard is not None:
            self.heard.append(result)
        if self._candidate is None or result.mean > self._candidate.mean:
            self._candidate = result


class EvaluationResult:
    """Greedy episodes of one version."""

    def __init__(self, steps: int, version: Version, results: Results) -> None:
        self.steps = steps  # counted by the learner when the result came in
        self.version = version
        self.results = Results(_bounded(results.returns), results.lengths, results.metrics)
        self.mean = float(self.results.returns.mean())
        self.length_mean = float(results.lengths.mean())
        self.episodes = len(results.returns)

    def cut(self, max_steps: int) -> int:
        """Return how many episodes went on for so many steps, and were cut there."""
        return int((self.results.lengths >= max_steps).sum())

    @property
    def figures(self) -> dict[str, Figure]:
        """The metrics that its episodes reported, by the names of their means."""
        return figures(self.results)

    @property
    def interval(self) -> Interval:
        """The mean return with its 95 % interval."""
        return confidence(self.results.returns.tolist())


def _bounded(returns: np.ndarray) -> np.ndarray:
    """Return the returns within the bound that the receiver has: an old journal has any."""
    return returns.clip(-MAGNITUDE, MAGNITUDE)


class ConstantObservations:
    """A check of the first rows for observations that never change and so teach nothing."""

    def __init__(self) -> None:
        self.verdict = ""  # a sentence, once there is reason for it
        self._first: dict[str, np.ndarray] = {}
        self._rows = 0  # -1: some differed, nothing is checked any more

    def check(self, parcel: Parcel) -> None:
        """Compare a parcel's observations with the first one, until some differ."""
        if self._rows < 0:
            return
        observations = {
            name: column for name, column in parcel.columns.items() if name.startswith(OBSERVATIONS)
        }
        for name, column in observations.items():
            self._first.setdefault(name, column[0].copy())
        if any((column != self._first[name]).any() for name, column in observations.items()):
            self._rows = -1
            self.verdict = ""
            return
        self._rows += parcel.rows
        if self._rows >= SUSPICIOUS_ROWS:
            zero = not any(first.any() for first in self._first.values())
            self.verdict = (
                f"the observations of the first {self._rows} steps are "
                f"{'all zero' if zero else 'all the same'}: nothing can be learned from them"
            )
