"""When a run is over: `--until "evaluation >= 475 and steps > 1e4"`, read without running anything."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from farflung.common.process.config import suggestion
from farflung.common.process.errors import UsageError

FIGURES = {
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
    """One figure against one number."""

    figure: str
    sign: str
    number: float

    def met(self, figures: Mapping[str, float | None]) -> bool:
        """Whether it holds; a figure that is not known yet meets nothing."""
        value = figures.get(self.figure)
        return value is not None and OPERATORS[self.sign](value, self.number)


@dataclass(frozen=True, slots=True)
class Condition:
    """Alternatives (`or`) of comparisons that must hold together (`and`); the empty one is never met."""

    alternatives: tuple[tuple[Comparison, ...], ...] = ()

    def met(self, figures: Mapping[str, float | None]) -> bool:
        """Whether these figures end the run."""
        return any(
            all(comparison.met(figures) for comparison in together)
            for together in self.alternatives
        )

    @property
    def figures(self) -> frozenset[str]:
        """What it depends on."""
        return frozenset(
            comparison.figure for together in self.alternatives for comparison in together
        )


def parse(text: str) -> Condition:
    """The condition that a person wrote; nothing written is never met."""
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
            f"--until: {text.strip()!r} is not a comparison such as 'evaluation >= 475' (joined by 'and' or 'or')"
        )
    figure, sign, number = found.groups()
    if figure not in FIGURES:
        raise UsageError(
            f"--until: unknown figure {figure!r} (there are {', '.join(FIGURES)}).{suggestion(figure, FIGURES)}"
        )
    return Comparison(figure, sign, float(number))
