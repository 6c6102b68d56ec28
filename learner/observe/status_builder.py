"""The builder of a learner's status: from training, the network thread and the clock."""

import logging
from collections import Counter, deque
from dataclasses import replace
from typing import Any

from farflung.common.data.pool import OPPONENT, OUTCOME, SEAT
from farflung.common.data.selfplay import scripts_of
from farflung.common.data.statistics import Rate
from farflung.common.heads import registry as heads
from farflung.common.protocol.messages import State
from farflung.learner.config import LearnerConfig
from farflung.learner.core.core import Core
from farflung.learner.core.curves import IS_SUCCESS, of_episodes, wanted
from farflung.learner.core.own_metrics import ENOUGH
from farflung.learner.core.pacing import FOR_GRADIENTS, Cause, Waiting
from farflung.learner.core.progress import EvaluationResult, Progress
from farflung.learner.observe.endpoint_status import EndpointStatus
from farflung.learner.observe.games_view import GamesView
from farflung.learner.observe.holding import Holding
from farflung.learner.observe.machine import Machine
from farflung.learner.observe.status import EvaluationStatus, FigureStatus, Status, WaitingStatus
from farflung.learner.observe.time_split import TimeSplit
from farflung.learner.schedule.rounds import round_updates
from farflung.learner.storage.run_folder import Run

PROBLEMS = 10
RECENT = 20  # calls of `status`, four a second
DERIVED = ": --wrapper SuccessFromReturn:at_least=R derives is_success from the return"

log = logging.getLogger(__name__)


class StatusBuilder:
    """Makes the status. It remembers rates, the best evaluation and the last progress."""

    def __init__(self, config: LearnerConfig, run: Run, core: Core, device: str) -> None:
        self.problems: deque[str] = deque(maxlen=PROBLEMS)  # of this process, the newest last
        self._core = core
        self.join = ""  # the line to paste, once the address is known
        self.checkpoint_pause_s: float | None = None
        self.goal_seconds: float | None = None
        self.archived = 0  # versions
        self.own_actors = 0  # local actors that are running or starting
        self.evaluation_left = 0  # episodes to go of an evaluation in this process
        self._steps, self._updates = Rate(), Rate()
        self._in, self._out, self._machine = Rate(), Rate(), Machine()
        self.time = TimeSplit(config, core.pacing)
        self._holding = Holding(core)
        self._waits, self._games = Waits(), GamesView(scripts_of(core.spec.selfplay))
        self._lasting = Status(
            run=run.identity,
            policy=config.policy,
            mode=config.mode,
            environment=config.environment,
            algorithm=config.algorithm,
            device=device,
            folder=str(run.folder),
            steps_target=config.steps or None,
            until=config.until,
            ratio_wanted=None if round_updates(config) else core.pacing.ratio,
        )
        self._alone = config.gradients == "only"
        self._wanted = wanted(config.metrics, config.condition.metrics)
        self._said = False
        self._moved: tuple[int, int] = (-1, -1)
        self._moved_at = 0.0
        self.noticed = ""  # about the newest evaluation
        self.best = float("-inf")  # mean of an evaluation, of earlier epochs too

    def status(self, view: EndpointStatus, seconds: float, leaving: State = State.RUN) -> Status:
        """Return everything that is known, `seconds` after the start."""
        core, state = self._core, self._core.state
        progress = core.progress
        self._tick(seconds)
        self.noticed = self._cut()
        verdicts = progress.constant_observations.verdict, core.guard.sentence
        noticed = filter(None, (*verdicts, self.noticed, self._unreported()))
        waiting, use = self._waiting(view, leaving), self._use(view, seconds)
        return replace(
            self._lasting,
            state=State.PAUSE if core.state.paused and leaving is State.RUN else leaving,
            join=self.join,
            seconds=seconds,
            idle_seconds=seconds - self._moved_at,
            steps=state.steps,
            updates=state.updates,
            skipped=core.guard.skipped,
            epoch=state.version.epoch,
            version=state.version.number,
            **_course(progress),
            evaluation=self._evaluation(progress.evaluation),
            evaluation_history=progress.evaluations.points,
            goal_seconds=self.goal_seconds,
            metrics=self._metrics(),
            figures=self._figures(),
            steps_per_second=self._steps.per_second,
            updates_per_second=self._updates.per_second,
            **self._ratio(),
            waiting=waiting,
            **self.time.look(view, waiting.cause, use["machine_cpu"], seconds),
            lag_p50=progress.lag.p50,
            lag_p95=progress.lag.p95,
            replay_size=core.replay.size,
            replay_capacity=core.replay.capacity,
            update_split=dict(core.split.seconds),
            **use,
            checkpoint_pause_s=self.checkpoint_pause_s,
            **_books(view),
            games=self._games.status(progress.standings, seconds, leaving is not State.RUN),
            archived=self.archived,
            actors=view.actors,
            more_actors=view.more_actors,
            problems=(*noticed, *view.problems, *self.problems),
            problem_texts=view.problem_texts,
        )

    def _waiting(self, view: EndpointStatus, leaving: State) -> WaitingStatus:
        if self._core.state.paused and leaving is State.RUN:
            return WaitingStatus(Cause.PAUSE, 0, 1.0)
        remote = self._lasting.mode != "sequential"
        if remote and not view.actors and leaving is State.RUN:
            return WaitingStatus(Cause.ACTORS, self.own_actors, 1.0)
        if self.evaluation_left:
            return WaitingStatus(Cause.EVALUATION, self.evaluation_left, 1.0)
        return self._waits.add(FOR_GRADIENTS if self._alone else self._core.pacing.waiting)

    def _ratio(self) -> dict[str, Any]:
        """Return the replay ratio, as it is wanted and held now, and all that was set."""
        pacing, fixed = self._core.pacing, self._lasting.ratio_wanted is None
        wanted = None if fixed else pacing.pace
        steered = dict(self._core.steering.settings)
        held = {"ratio_wanted": wanted, "ratio_held": pacing.held}
        return held | {"weight": pacing.weight, "steered": steered}

    def _use(self, view: EndpointStatus, seconds: float) -> dict[str, Any]:
        """Return the use of processor, memory and network."""
        used = self._machine.usage(seconds)
        self._in.update(view.bytes_in, seconds)
        self._out.update(view.bytes_out, seconds)
        return {
            "cpu": used.cpu,
            "machine_cpu": used.machine_cpu,
            "memory": used.memory,
            "machine_memory": used.machine_memory,
            "memory_parts": self._holding.parts(dict(view.held), seconds),
            "bytes_in": view.bytes_in,
            "bytes_out": view.bytes_out,
            "bytes_in_per_second": self._in.per_second,
            "bytes_out_per_second": self._out.per_second,
        }

    def _tick(self, seconds: float) -> None:
        state = self._core.state
        self._steps.update(state.steps, seconds)
        self._updates.update(state.updates, seconds)
        if self._moved != (state.steps, state.updates):
            self._moved, self._moved_at = (state.steps, state.updates), seconds

    def _metrics(self) -> dict[str, float | None]:
        """Return the figures of the algorithm, then those of exploration."""
        core, spec = self._core, self._core.spec
        progress = spec.exploration.progress(core.state.steps, core.state.version.number)
        return {**core.update_metrics.means, **heads.find(spec.head).metrics(spec, progress)}

    def _figures(self) -> dict[str, FigureStatus]:
        """Return the metrics of one's own by the names of their curves."""
        progress = self._core.progress
        evaluated = progress.evaluation.figures if progress.evaluation else {}
        # The mean of the numbers of opponents says nothing: the status has the games themselves.
        ours = () if self._core.spec.selfplay is None else (OPPONENT, SEAT, OUTCOME)
        reported = {n: figure for n, figure in progress.metrics.figures.items() if n not in ours}
        figures = {
            **{f"rollout/{name}": figure for name, figure in reported.items()},
            **{f"eval/{name}": figure for name, figure in evaluated.items()},
            **self._core.recorded.figures,
        }
        return {name: FigureStatus(f.mean, f.spread, f.count) for name, f in figures.items()}

    def _unreported(self) -> str:
        """Return a sentence if episodes end without a metric that the settings name."""
        progress = self._core.progress
        known = progress.metrics.figures if len(progress.returns) >= ENOUGH else None
        missing = [m for m in self._wanted if known is not None and of_episodes(m) not in known]
        if not missing:
            return ""
        advice = DERIVED if IS_SUCCESS in missing else ""
        sentence = f"no episode has reported {', '.join(missing)} in its info yet{advice}"
        if not self._said:
            self._said = True
            log.warning(sentence)
        return sentence

    def _evaluation(self, result: EvaluationResult | None) -> EvaluationStatus | None:
        if result is None:
            return None
        self.best = max(self.best, result.mean)
        return EvaluationStatus(
            result.mean,
            result.episodes,
            result.version.number,
            self.best,
            result.length_mean,
            result.cut(self._core.spec.evaluation.max_steps),
        )

    def _cut(self) -> str:
        """Return a sentence if episodes of the newest evaluation did not end by themselves."""
        result, most = self._core.progress.evaluation, self._core.spec.evaluation.max_steps
        cut = 0 if result is None else result.cut(most)
        if result is None or not cut:
            return ""
        return (
            f"{cut} of the {result.episodes} episodes of the newest evaluation were cut after "
            f"{most:,} steps (--evaluate-max-steps): under the greedy policy they go on"
        )


def _books(view: EndpointStatus) -> dict[str, Any]:
    """Return the books of all that came in."""
    return {
        "received": view.received,
        "duplicates": view.duplicates,
        "lost": view.lost,
        "refused": dict(view.refused),
        "gradients": view.gradients,
        "commands": view.commands,
    }


def _course(progress: Progress) -> dict[str, Any]:
    """Return the figures of training episodes."""
    return {
        "episodes": progress.episodes,
        "return_mean": progress.return_mean,
        "return_spread": progress.return_spread,
        "return_history": progress.history.points,
        "length_mean": progress.length_mean,
    }


class Waits:
    """The waits of the last seconds: the side that waits changes many times a second."""

    def __init__(self) -> None:
        self._causes: deque[Cause] = deque(maxlen=RECENT)

    def add(self, now: Waiting) -> WaitingStatus:
        """Add the present wait; return the most frequent one of the last seconds."""
        self._causes.append(now.cause)
        counts = Counter(cause for cause in self._causes if cause is not Cause.NONE)
        if not counts:
            return WaitingStatus()
        ((cause, times),) = counts.most_common(1)
        number = now.number if cause is now.cause else 0
        return WaitingStatus(cause, number, times / len(self._causes))
