"""What goes on around training: figures are shown, checkpoints written, the end decided. Every mode looks in here between two updates."""

import logging
import math
import sys
import time

from farflung.common.process.lifecycle import Stop
from farflung.common.process.log import Who
from farflung.common.protocol.messages import State
from farflung.learner.children import Children
from farflung.learner.config import LearnerConfig
from farflung.learner.core.training import Training
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.observe.status import Status
from farflung.learner.observe.status_builder import StatusBuilder
from farflung.learner.storage.run_folder import Run
from farflung.learner.storage.saver import Saver
from farflung.learner.transport.network_thread import NetworkView

log = logging.getLogger(__name__)

LOOK_S = 0.25


class Supervisor:
    """One run of the learner from the first update to the last word."""

    def __init__(
        self,
        config: LearnerConfig,
        run: Run,
        training: Training,
        overview: StatusBuilder,
        children: Children,
        stop: Stop,
        who: Who,
        started_at: float,
    ) -> None:
        self.verdict = ""  # why it ended, once it has
        self.finished = False  # the goal was reached
        self.outlets: list[StatusSink] = []
        self.saver = Saver(run, training)
        self._config, self._training = config, training
        self._overview, self._children = overview, children
        self._stop, self._who, self._started_at = stop, who, started_at
        self._condition = config.condition
        self.view = NetworkView()  # the newest
        self._looked_at = 0.0
        self._saved_at = time.monotonic()

    @property
    def rows_wanted(self) -> int:
        """How many more environment steps are wanted."""
        return (
            max(0, self._config.steps - self._training.steps) if self._config.steps else sys.maxsize
        )

    def goes_on(self, view: NetworkView) -> bool:
        """Whether there is more to do; to be asked between two updates. Now and then it looks after everything else."""
        now, self.view = time.monotonic(), view
        if now - self._looked_at >= LOOK_S:
            self._looked_at = now
            self._look(now)
        if self._stop:
            self.verdict = f"stopped: {self._stop.reason}"
        else:
            self.verdict = self._goal_reached(now)
            self.finished = bool(self.verdict)
        return not self.verdict

    @property
    def last_state(self) -> State:
        """What this learner says when it leaves: only where the goal was reached is the run over, whatever else ended it."""
        return State.STOP if self.finished else State.AWAY

    def status(self, state: State = State.RUN) -> Status:
        """Everything that is known now."""
        return self._overview.status(self.view, time.monotonic() - self._started_at, state)

    def finish(self) -> None:
        """Show the last figures, and leave the terminal as it was."""
        status = self.status(self.last_state)
        for outlet in self.outlets:
            outlet.close(status)

    def save(self) -> None:
        """Write the last checkpoint."""
        self.saver.finish(self.view.roster)

    def _look(self, now: float) -> None:
        self._who.version = str(self._training.version)
        for death in self._children.tick(now):
            self._tell(death)
        if self._config.checkpoint_every and now - self._saved_at >= self._config.checkpoint_every:
            self._save(now)
        if problem := self.saver.problem():
            self._tell(problem)
        self._overview.checkpoint_pause_s = self.saver.pause_s
        status = self.status()
        for outlet in self.outlets:
            outlet.show(status)

    def _save(self, now: float) -> None:
        """Let a checkpoint be written beside training; while the last one still is, this one is left out."""
        self._saved_at = now
        if not self.saver.busy:
            self.saver.begin(self.view.roster)

    def _tell(self, problem: str) -> None:
        log.warning(problem)
        self._overview.problems.append(problem)

    def _goal_reached(self, now: float) -> str:
        """By which goal the run is over, in a sentence; empty while there is more to do."""
        training = self._training
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
        if not self.rows_wanted and (
            math.isinf(self._config.replay_ratio) or not training.pacing.may_update
        ):
            learned = (
                "and learned from"
                if training.updates
                else f"but the warm-up of {self._config.warmup} was never over"
            )
            return f"all {training.steps} steps are collected {learned}"
        return ""
