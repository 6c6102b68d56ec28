"""Metrics of one's own: numbers by name, each summed up over its latest values.

Values are kept as they came, so that mean and spread are those of values, and never of means.
"""

import logging
import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from farflung.common.data.fields import MAGNITUDE
from farflung.common.data.parcel import Results
from farflung.common.data.statistics import Figure, summary
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.text import printable
from farflung.learner.core.curves import of_episodes

if TYPE_CHECKING:
    import numpy as np
    import torch

log = logging.getLogger(__name__)

LATEST = 100  # values of a metric that its figures are taken over
ENOUGH = 20  # episodes that make a mean to decide by
NAMES = 256  # metrics of one source


class Metrics:
    """The latest values of metrics from one source."""

    def __init__(self) -> None:
        self._values: dict[str, deque[float]] = {}
        self._named: set[str] = set()  # names with values that are not finite

    def add(self, name: str, values: Iterable[float]) -> None:
        """Take values, the newest last. One that is no finite number is left out, and said once."""
        kept = self._values.get(name)
        if kept is None:
            if len(self._values) >= NAMES:
                raise ConfigurationError(f"metric {printable(name)!r}: there are {NAMES} already")
            kept = self._values[name] = deque(maxlen=LATEST)
        for value in values:
            if abs(value) <= MAGNITUDE:  # NaN is not
                kept.append(value)
            elif name not in self._named:
                self._named.add(name)
                log.warning("metric %s was %s: such values are left out", name, value)

    def figure(self, name: str) -> Figure | None:
        """Return the figure of a metric, or None without values."""
        values = self._values.get(name)
        return summary(values) if values else None

    @property
    def figures(self) -> dict[str, Figure]:
        """Return the figures of all metrics that have values."""
        return {name: summary(values) for name, values in self._values.items() if values}


def known(values: "np.ndarray") -> list[float]:
    """Return the values [E] of a metric of episodes, without NaN: those reported none."""
    kept: list[float] = values[values == values].tolist()  # NaN is not itself
    return kept


def figures(results: Results) -> dict[str, Figure]:
    """Return the metrics that some episodes reported, over all of these."""
    reported = {of_episodes(name): known(values) for name, values in results.metrics.items()}
    return {name: summary(values) for name, values in reported.items() if values}


class Updates:
    """The metrics that the latest updates returned. They stay on their device until asked for."""

    def __init__(self) -> None:
        self._latest: deque[Mapping[str, torch.Tensor]] = deque(maxlen=LATEST)

    def add(self, metrics: Mapping[str, "torch.Tensor"]) -> None:
        """Take the metrics of one update: 0-d tensors that nothing changes later."""
        self._latest.append(metrics)

    @property
    def newest(self) -> Mapping[str, "torch.Tensor"]:
        """The metrics of the newest update."""
        return self._latest[-1] if self._latest else {}

    @property
    def means(self) -> dict[str, float]:
        """Return the mean of the finite values of each metric in the newest update, or NaN."""
        return {name: self.mean(name) for name in list(self.newest)[:NAMES]}

    def mean(self, name: str) -> float:
        """Return the mean of the finite values of one metric, or NaN if there is none."""
        import torch

        tensors = [metrics[name] for metrics in self._latest if name in metrics]
        # One tensor is one transfer from an accelerator.
        values = torch.stack(tensors).flatten().tolist() if tensors else ()
        finite = [value for value in values if math.isfinite(value)]
        return summary(finite).mean if finite else math.nan
