"""The work around training: children, checkpoints, status, and the verdict that ends a run."""

import logging
import time
from collections.abc import Callable

from farflung.common.process.lifecycle import Stop
from farflung.common.process.log import Who
from farflung.common.protocol.messages import State
from farflung.learner.api.callbacks import Callbacks
from farflung.learner.config import LearnerConfig
from farflung.learner.core.core import Core
from farflung.learner.local.actors import EVALUATOR
from farflung.learner.local.children import Children
from farflung.learner.loop import Transport
from farflung.learner.observe.forecast import Forecast
from farflung.learner.observe.late import Late
from farflung.learner.observe.metrics import scalars
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.observe.status import ActorState, Status
from farflung.learner.observe.status_builder import StatusBuilder
from farflung.learner.schedule.goal import Goal
from farflung.learner.steering.executor import Executor
from farflung.learner.storage.saver import Saver

log = logging.getLogger(__name__)

COLLECTS = (ActorState.JOINING, ActorState.RUNNING, ActorState.LEARNING, ActorState.WAITING)
CHECK_S = 0.25  # between two checks of everything but the end of the run


class Supervisor:
    """Supervises a run while it trains: call `tick` after every action."""

    def __init__(
        self,
        config: LearnerConfig,
        core: Core,
        status: StatusBuilder,
        saver: Saver,
        transport: Transport,
        children: Children,
        stop: Stop,
        who: Who,
        started_at: float,
    ) -> None:
        self.verdict = ""  # why the run ended, once it has
        self.finished = False  # the goal was reached
        self.sinks: list[StatusSink[Status]] = []
        self.missing: Callable[[], list[int]] = list  # the actors that a round waits for
        self.callbacks = Callbacks(core, saver)
        self.saver = saver
        self.executor: Executor | None = None  # of commands
        self._core, self._status, self._children = core, status, children
        self._transport = transport
        self._goal, self._late = Goal(config), Late()
        self._forecast = Forecast(config.condition, config.steps)
        self._stop, self._who, self._started_at = stop, who, started_at
        self._checkpoint_every = config.checkpoint_every
        self._checked_at = self._looked_at = 0.0
        self._noticed = ""
        self._saved_at = time.monotonic()
        self._shown: Status | None = None  # the newest status

    @property
    def over(self) -> bool:
        """True once a goal is reached or a signal has come."""
        return bool(self.verdict)

    @property
    def in_vain(self) -> bool:
        """True if the goal was reached without an update. A callback may stop a run at any time."""
        return self.finished and not self.callbacks.verdict and not self._core.trained

    @property
    def goal(self) -> str:
        """The goal that was reached, in a line; empty if a callback stopped the run."""
        return "" if self.callbacks.verdict else str(self._goal)

    @property
    def continued_by(self) -> str:
        """The flags with which the run can be continued beyond a goal that it has reached."""
        reached = self.finished and self.goal and not self.in_vain
        return self._goal.lifted_by if reached else ""

    @property
    def rows_wanted(self) -> int:
        """Environment steps that are still wanted."""
        return self._goal.rows_wanted(self._core)

    @property
    def last_state(self) -> State:
        """The state in which this learner leaves: the run is over only if its goal was reached."""
        return State.STOP if self.finished else State.AWAY

    def tick(self) -> None:
        """Check whether the run is over, and from time to time everything else."""
        now = time.monotonic()
        if now - self._checked_at >= CHECK_S:
            self._checked_at = now
            self._check(now)
        core = self._core
        if self.saver.archive.look(core.state.version, core.progress.episodes):
            core.progress.standings.keep(self.saver.archive.versions)
        self.callbacks.look()
        if self._stop:
            self.verdict = f"stopped: {self._stop.reason}"
        elif self.callbacks.verdict:
            self.verdict = self.callbacks.verdict
            self.finished = not self.callbacks.failed
        else:
            self.verdict = self._goal.reached(self._core, now - self._started_at)
            self.finished = bool(self.verdict)

    def look(self, left: Callable[[], int]) -> None:
        """Show how the run stands while an action takes long, such as an evaluation here."""
        now = time.monotonic()
        if now - max(self._checked_at, self._looked_at) < CHECK_S:
            return
        self._looked_at = now
        self._status.evaluation_left = left()
        status = self.status()
        self._status.evaluation_left = 0
        for sink in self.sinks:
            sink.show(status)

    def status(self, state: State = State.RUN) -> Status:
        """Return everything that is known now."""
        self._shown = self._status.status(
            self._transport.status, time.monotonic() - self._started_at, state
        )
        return self._shown

    def figures(self) -> dict[str, float]:
        """Return the figures of the newest status by their published names."""
        return scalars(self._shown or self.status())

    def finish(self) -> None:
        """Show the last figures, and leave the terminal as it was."""
        status = self.status(self.last_state)
        self._notice()  # a short run ends before the next check
        for sink in self.sinks:
            sink.close(status)

    def save(self) -> None:
        """Write the last checkpoint."""
        if self.executor is not None:
            self.executor.close()
        self.saver.finish(self._transport.status.roster)

    def _check(self, now: float) -> None:
        self._who.version = str(self._core.state.version)
        if self.executor is not None:
            self.executor.tick()
        for death in self._children.tick(now):
            self._report(death)
        self._require_actors()
        self._status.own_actors = self._children.working(EVALUATOR)
        if self._checkpoint_every and now - self._saved_at >= self._checkpoint_every:
            self._checkpoint(now)
        self.saver.best.consider(self._core.progress.take_candidate(), now)
        saver = self.saver
        for problem in (saver.problem(), saver.best.problem(), saver.archive.problem()):
            if problem:
                self._report(problem)
        number, roster = self._core.state.version.number, self._transport.status.roster
        missing = [] if self._core.state.paused else self.missing()
        if sentence := self._late.sentence(number, missing, roster, now):
            self._report(sentence)
        self._status.checkpoint_pause_s = self.saver.pause_s
        self._status.archived = len(self.saver.archive.index)
        since = now - self._started_at
        self._forecast.look(since, self._goal.values(self._core, since))
        self._status.goal_seconds = self._forecast.seconds_left
        status = self.status()
        self._notice()
        for sink in self.sinks:
            sink.show(status)

    def _notice(self) -> None:
        """Log what is noticed about the newest evaluation, once."""
        if self._status.noticed and self._status.noticed != self._noticed:
            log.warning(self._status.noticed)
        self._noticed = self._status.noticed

    def _require_actors(self) -> None:
        """Stop the run if each actor of its own is given up, and no other one collects."""
        lost, view = self._children.lost(EVALUATOR), self._transport.status
        if lost is not None and not any(actor.state in COLLECTS for actor in view.actors):
            self._stop.set(lost.given_up, lost.process.returncode)

    def checkpoint(self) -> None:
        """Start a checkpoint now."""
        self._checkpoint(time.monotonic())

    def _checkpoint(self, now: float) -> None:
        """Start a checkpoint beside training, unless the last one is still being written."""
        self._saved_at = now
        if not self.saver.busy:
            self.saver.begin(self._transport.status.roster)

    def _report(self, problem: str) -> None:
        log.warning(problem)
        self._status.problems.append(problem)
