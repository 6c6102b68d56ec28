"""The condition that ends a run: `--until "evaluation >= 475 and steps > 1e4"`, never executed."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from farflung.common.process.config import suggestion
from farflung.common.process.errors import UsageError

METRICS = {
    "evaluation": "mean return of the newest evaluation",
    "return": "mean return of the last 100 episodes",
    "steps": "environment steps",
    "updates": "gradient steps",
    "episodes": "finished episodes",
    "seconds": "seconds since the start",
}

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}

COMPARISON = re.compile(
    r"\s*(\w+)\s*(<=|>=|==|<|>)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A metric compared with a number."""

    metric: str
    sign: str
    number: float

    def met(self, metrics: Mapping[str, float | None]) -> bool:
        """Return whether it holds; with an unknown value it does not."""
        value = metrics.get(self.metric)
        return value is not None and OPERATORS[self.sign](value, self.number)


@dataclass(frozen=True, slots=True)
class Condition:
    """Alternatives (`or`) of comparisons that must hold together (`and`); empty: never met."""

    alternatives: tuple[tuple[Comparison, ...], ...] = ()

    def met(self, metrics: Mapping[str, float | None]) -> bool:
        """Return whether these values end the run."""
        return any(
            all(comparison.met(metrics) for comparison in together)
            for together in self.alternatives
        )

    @property
    def metrics(self) -> frozenset[str]:
        """Return the metrics that it depends on."""
        return frozenset(
            comparison.metric for together in self.alternatives for comparison in together
        )


def parse(text: str) -> Condition:
    """Return the condition in a text; an empty text is never met."""
    if not text.strip():
        return Condition()
    return Condition(
        tuple(
            tuple(_comparison(part) for part in re.split(r"\band\b", side))
            for side in re.split(r"\bor\b", text)
        )
    )


def _comparison(text: str) -> Comparison:
    found = COMPARISON.fullmatch(text)
    if found is None:
        raise UsageError(
            f"--until: {text.strip()!r} is not a comparison. "
            "Write one such as 'evaluation >= 475', and join several by 'and' or 'or'"
        )
    metric, sign, number = found.groups()
    if metric not in METRICS:
        raise UsageError(
            f"--until: unknown metric {metric!r} (known: {', '.join(METRICS)})."
            f"{suggestion(metric, METRICS)}"
        )
    return Comparison(metric, sign, float(number))
