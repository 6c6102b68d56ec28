"""What goes on around training: figures are shown, checkpoints written, the end decided. Every mode looks in here between two updates."""

import logging
import math
import time
from collections.abc import Sequence

from common.lifecycle import Stop
from common.messages import State
from learner import checkpoint
from learner.checkpoint import Checkpoint
from learner.children import Children
from learner.config import LearnerConfig
from learner.link import View
from learner.outlet import Outlet
from learner.overview import Overview
from learner.run import Run
from learner.training import Training

log = logging.getLogger(__name__)

LOOK_S = 0.1


class Session:
    """One run of the learner from the first update to the last word."""

    def __init__(
        self,
        config: LearnerConfig,
        run: Run,
        training: Training,
        overview: Overview,
        outlets: Sequence[Outlet],
        children: Children,
        stop: Stop,
        started_at: float,
    ) -> None:
        self.verdict = ""  # why it ended, once it has
        self._config, self._run, self._training = config, run, training
        self._overview, self._outlets, self._children = overview, outlets, children
        self._stop, self._started_at = stop, started_at
        self._condition = config.condition
        self._view = View()  # the newest
        self._looked_at = 0.0
        self._saved_at = time.monotonic()

    @property
    def enough(self) -> bool:
        """Whether no more experience is wanted."""
        return bool(self._config.steps) and self._training.steps >= self._config.steps

    def goes_on(self, view: View) -> bool:
        """Whether there is more to do; to be asked between two updates. Now and then it looks after everything else."""
        now, self._view = time.monotonic(), view
        if now - self._looked_at >= LOOK_S:
            self._looked_at = now
            self._look(now)
        self.verdict = self._over(now)
        return not self.verdict

    def finish(self) -> None:
        """Show the last figures, and leave the terminal as it was."""
        status = self._overview.status(self._view, time.monotonic() - self._started_at, State.STOP)
        for outlet in self._outlets:
            outlet.close(status)

    def save(self) -> str:
        """Write a checkpoint; gives its path."""
        training = self._training
        facts = {"steps": training.steps, "updates": training.updates, "episodes": training.progress.episodes, "run": self._run.identity}
        folder = checkpoint.save(self._run.folder, Checkpoint(training.algorithm.state(), facts))
        self._saved_at = time.monotonic()
        return str(folder)

    def _look(self, now: float) -> None:
        for death in self._children.tick(now):
            log.warning(death)
            self._overview.problems.append(death)
        if self._config.checkpoint_every and now - self._saved_at >= self._config.checkpoint_every:
            log.info("checkpoint: %s", self.save())
        status = self._overview.status(self._view, now - self._started_at)
        for outlet in self._outlets:
            outlet.show(status)

    def _over(self, now: float) -> str:
        training = self._training
        if self._stop:
            return f"stopped: {self._stop.reason}"
        if self._condition.alternatives:
            evaluation = training.progress.evaluation
            figures = {
                "evaluation": evaluation.mean if evaluation else None,
                "return": training.progress.return_mean,
                "steps": training.steps,
                "updates": training.updates,
                "episodes": training.progress.episodes,
                "seconds": now - self._started_at,
            }
            if self._condition.met(figures):
                return f"solved: {self._config.until}"
        if self.enough and (math.isinf(self._config.replay_ratio) or not training.pacing.may_update):
            return f"all {training.steps} steps are collected and learned from"
        return ""
