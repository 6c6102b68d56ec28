"""What goes on around training: figures are shown, checkpoints written, the end decided. Every mode looks in here between two updates."""

import logging
import math
import sys
import time

from safetensors import SafetensorError

from common.lifecycle import Stop
from common.log import Who
from common.messages import State
from learner import checkpoint
from learner.checkpoint import Checkpoint
from learner.children import Children
from learner.config import LearnerConfig
from learner.journal.archive import Archive
from learner.link import View
from learner.outlet import Outlet
from learner.overview import Overview
from learner.run import Run
from learner.status import Status
from learner.training import Training

log = logging.getLogger(__name__)

LOOK_S = 0.25


class Session:
    """One run of the learner from the first update to the last word."""

    def __init__(
        self,
        config: LearnerConfig,
        run: Run,
        training: Training,
        overview: Overview,
        children: Children,
        stop: Stop,
        who: Who,
        started_at: float,
    ) -> None:
        self.verdict = ""  # why it ended, once it has
        self.saved = ""  # the newest checkpoint
        self.outlets: list[Outlet] = []
        self.archive: Archive | None = None  # the journal, where there is one
        self._config, self._run, self._training = config, run, training
        self._overview, self._children = overview, children
        self._stop, self._who, self._started_at = stop, who, started_at
        self._condition = config.condition
        self.view = View()  # the newest
        self._looked_at = 0.0
        self._saved_at = time.monotonic()

    @property
    def rows_wanted(self) -> int:
        """How many more environment steps are wanted."""
        return max(0, self._config.steps - self._training.steps) if self._config.steps else sys.maxsize

    def goes_on(self, view: View) -> bool:
        """Whether there is more to do; to be asked between two updates. Now and then it looks after everything else."""
        now, self.view = time.monotonic(), view
        if now - self._looked_at >= LOOK_S:
            self._looked_at = now
            self._look(now)
        self.verdict = self._over(now)
        return not self.verdict

    def status(self, state: State = State.RUN) -> Status:
        """Everything that is known now."""
        return self._overview.status(self.view, time.monotonic() - self._started_at, state)

    def finish(self) -> None:
        """Show the last figures, and leave the terminal as it was."""
        status = self.status(State.STOP)
        for outlet in self.outlets:
            outlet.close(status)

    def save(self) -> None:
        """Write a checkpoint."""
        training = self._training
        facts = {"steps": training.steps, "updates": training.updates, "episodes": training.progress.episodes, "run": self._run.identity}
        place = self.archive.place(training.replay.size) if self.archive is not None else {}
        self.saved = str(checkpoint.save(self._run.folder, Checkpoint(training.algorithm.state(), facts | place)))
        if self.archive is not None:
            self.archive.prune()
        self._saved_at = time.monotonic()
        log.info("checkpoint: %s", self.saved)

    def _look(self, now: float) -> None:
        self._who.version = str(self._training.version)
        for death in self._children.tick(now):
            self._tell(death)
        if self._config.checkpoint_every and now - self._saved_at >= self._config.checkpoint_every:
            self._try_to_save(now)
        status = self.status()
        for outlet in self.outlets:
            outlet.show(status)

    def _try_to_save(self, now: float) -> None:
        """A full disk is no reason to end a training: it is named, and the next checkpoint is tried in its time."""
        try:
            self.save()
        except (OSError, SafetensorError) as error:
            self._saved_at = now
            self._tell(f"no checkpoint could be written, the one before it stands: {error}")

    def _tell(self, problem: str) -> None:
        log.warning(problem)
        self._overview.problems.append(problem)

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
        if not self.rows_wanted and (math.isinf(self._config.replay_ratio) or not training.pacing.may_update):
            learned = "and learned from" if training.updates else f"but the warm-up of {self._config.warmup} was never over"
            return f"all {training.steps} steps are collected {learned}"
        return ""
