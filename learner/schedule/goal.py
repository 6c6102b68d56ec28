"""The goals of a run, `--steps` and `--until "evaluation >= 475 and steps > 1e4"`.

Metrics alone decide; a condition is read, never executed.
"""

import math
import operator
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from farflung.common.process.config import suggestion
from farflung.common.process.errors import UsageError
from farflung.learner.core.curves import OWN, SUCCESS_RATE
from farflung.learner.schedule.rollout import rollout_of

if TYPE_CHECKING:  # settings import this module, and a core imports torch
    from farflung.learner.config import LearnerConfig
    from farflung.learner.core.core import Core

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
    r"\s*([\w./-]+?)\s*(<=|>=|==|<|>)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*", re.IGNORECASE
)

AND, OR = (re.compile(rf"(?<![\w./-]){word}(?![\w./-])") for word in ("and", "or"))
SELDOM = 10  # updates between two looks at the curves of a condition: a look waits for a device


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


def parse(text: str, episodes: Collection[str] = (SUCCESS_RATE,)) -> Condition:
    """Return the condition in a text; an empty text is never met.

    It may name means of these metrics of episodes.
    """
    if not text.strip():
        return Condition()
    return Condition(
        tuple(
            tuple(_comparison(part, episodes) for part in AND.split(side))
            for side in OR.split(text)
        )
    )


def _comparison(text: str, episodes: Collection[str]) -> Comparison:
    found = COMPARISON.fullmatch(text)
    if found is None:
        raise UsageError(
            f"--until: {text.strip()!r} is not a comparison. "
            "Write one such as 'evaluation >= 475', and join several by 'and' or 'or'"
        )
    metric, sign, number = found.groups()
    known = (*METRICS, *episodes, *(f"eval/{name}" for name in episodes))
    group, slash, short = metric.partition("/")
    own = slash and group and group not in OWN  # of an algorithm or a caller
    if metric not in known and not own and not (group == "rollout" and short in episodes):
        raise UsageError(
            f"--until: unknown metric {metric!r} (known: {', '.join(known)}; --metrics adds "
            f"those of an environment, train/NAME is one of updates).{suggestion(metric, known)}"
        )
    return Comparison(metric, sign, float(number))


class Goal:
    """The conditions that end a run with success."""

    def __init__(self, config: "LearnerConfig") -> None:
        self._steps, self._until, self._condition = config.steps, config.until, config.condition
        rollout = rollout_of(config.settings)
        self._first = (
            f"the first rollout of {rollout.rows}: raise --steps"
            if rollout
            else f"the warm-up of {config.warmup}: raise --steps or lower --warmup"
        )
        self._curves = {  # by the name in the condition
            name: name if "/" in name else f"rollout/{name}"
            for name in self._condition.metrics - METRICS.keys()
        }
        self._seen: Mapping[str, float | None] = {}  # values of those
        self._seen_at: object = None

    def rows_wanted(self, core: "Core") -> int:
        """Return how many more environment steps `--steps` allows."""
        return max(0, self._steps - core.state.steps) if self._steps else sys.maxsize

    def reached(self, core: "Core", seconds: float) -> str:
        """Return the goal that was reached as a sentence; empty while the run goes on."""
        if self._condition.alternatives and self._condition.met(self.values(core, seconds)):
            return f"solved: {self._until}"
        if self._steps and core.state.steps >= self._steps and not _must_learn(core):
            learned = (
                "and learned from"
                if core.state.updates
                else f"but they did not complete {self._first}"
            )
            return f"all {core.state.steps} steps are collected {learned}"
        return ""

    def values(self, core: "Core", seconds: float) -> dict[str, float | None]:
        """Return the values of the metrics that a condition may name."""
        evaluation, state = core.progress.evaluation, core.state
        moment = state.updates // SELDOM, state.steps, evaluation
        if self._curves and moment != self._seen_at:
            self._seen_at = moment
            self._seen = {name: core.value(curve) for name, curve in self._curves.items()}
        return {
            "evaluation": evaluation.mean if evaluation else None,
            "return": core.progress.return_mean,
            "steps": state.steps,
            "updates": state.updates,
            "episodes": core.progress.episodes,
            "seconds": seconds,
            **self._seen,
        }

    @property
    def lifted_by(self) -> str:
        """The flags with which a run has no goal any more, as a shell takes them."""
        flags = (("--steps 0", self._steps), ("--until ''", self._until))
        return " ".join(flag for flag, is_goal in flags if is_goal)

    def __str__(self) -> str:
        """Return the goal as one line: a run that reached it has it in its folder."""
        return f"goal: --steps {self._steps} --until {self._until!r}"


def _must_learn(core: "Core") -> bool:
    """Return whether a finite replay ratio asks for more updates."""
    return core.pacing.may_update and not math.isinf(core.pacing.ratio)
