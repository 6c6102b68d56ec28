"""The goals of a run: `--steps` and `--until`, judged by metrics alone."""

import math
import sys

from farflung.learner.config import LearnerConfig
from farflung.learner.core.core import Core


class Goal:
    """The conditions that end a run with success."""

    def __init__(self, config: LearnerConfig) -> None:
        self._steps, self._until, self._condition = config.steps, config.until, config.condition
        self._warmup = config.warmup

    def rows_wanted(self, core: Core) -> int:
        """Return how many more environment steps `--steps` allows."""
        return max(0, self._steps - core.state.steps) if self._steps else sys.maxsize

    def reached(self, core: Core, seconds: float) -> str:
        """Return the goal that was reached as a sentence; empty while the run goes on."""
        if self._condition.alternatives and self._condition.met(_metrics(core, seconds)):
            return f"solved: {self._until}"
        if self._steps and core.state.steps >= self._steps and not _must_learn(core):
            learned = (
                "and learned from"
                if core.state.updates
                else f"but they did not complete the warm-up of {self._warmup}"
            )
            return f"all {core.state.steps} steps are collected {learned}"
        return ""


def _must_learn(core: Core) -> bool:
    """Return whether a finite replay ratio asks for more updates."""
    return core.pacing.may_update and not math.isinf(core.pacing.ratio)


def _metrics(core: Core, seconds: float) -> dict[str, float | None]:
    """Return the values of the metrics that a condition may name."""
    evaluation = core.progress.evaluation
    return {
        "evaluation": evaluation.mean if evaluation else None,
        "return": core.progress.return_mean,
        "steps": core.state.steps,
        "updates": core.state.updates,
        "episodes": core.progress.episodes,
        "seconds": seconds,
    }
