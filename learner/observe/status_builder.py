"""What a learner shows of itself, put together from training, the network thread and the clock."""

import re
from collections import Counter, deque
from dataclasses import replace

from farflung.common.data.statistics import Rate
from farflung.common.protocol.messages import State
from farflung.learner.config import LearnerConfig
from farflung.learner.core.training import EvaluationResult, Training
from farflung.learner.observe.status import EvaluationStatus, Status
from farflung.learner.storage.run_folder import Run
from farflung.learner.transport.network_thread import NetworkView

PROBLEMS = 10
LATELY = 20  # looks, four a second, over which it is said who waits


class Waits:
    """Who waited lately. A single look would be luck: the side that is held back changes many times a second."""

    def __init__(self) -> None:
        self._sentences: deque[str] = deque(maxlen=LATELY)

    def look(self, sentence: str) -> str:
        """Take what is said now; gives who waited most, and how often where that was not always."""
        self._sentences.append(sentence)
        sides = Counter(_side(said) for said in self._sentences if said)
        if not sides:
            return ""
        (side, times) = sides.most_common(1)[0]
        return (
            sentence
            if times == len(self._sentences)
            else f"{side} ({100 * times // len(self._sentences)} % of the time)"
        )


def _side(sentence: str) -> str:
    """Who waits for what, without how many."""
    return re.sub(r"for [0-9]+ more rows.*", "for rows", sentence)


class StatusBuilder:
    """Makes the status, and remembers what only time can tell: rates, and since when nothing moved."""

    def __init__(self, config: LearnerConfig, run: Run, training: Training, device: str) -> None:
        self.problems: deque[str] = deque(maxlen=PROBLEMS)  # of this process, the newest last
        self._training = training
        self.join = ""  # the line to paste, once it is known where this learner listens
        self.checkpoint_pause_s: float | None = None
        self._steps, self._updates = Rate(), Rate()
        self._waits = Waits()
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
            learning_rate=getattr(config.settings, "learning_rate", None),
            ratio_wanted=config.replay_ratio,
        )
        self._moved: tuple[int, int] = (-1, -1)
        self._moved_at = 0.0
        self._best = float("-inf")

    def status(self, view: NetworkView, seconds: float, state: State = State.RUN) -> Status:
        """Everything that is known, so many seconds after the start."""
        training = self._training
        progress, pacing = training.progress, training.pacing
        self._look_at_the_clock(seconds)
        noticed = filter(None, (progress.suspicion.verdict, training.guard.sentence))
        metrics: dict[str, float | None] = {
            name: float(value) for name, value in training.metrics.items()
        }
        return replace(
            self._lasting,
            state=state,
            join=self.join,
            seconds=seconds,
            idle_seconds=seconds - self._moved_at,
            steps=training.steps,
            updates=training.updates,
            skipped=training.guard.skipped,
            epoch=training.version.epoch,
            version=training.version.number,
            episodes=progress.episodes,
            return_mean=progress.return_mean,
            return_history=progress.history.points,
            length_mean=progress.length_mean,
            evaluation=self._evaluation(progress.evaluation),
            loss=metrics.get("loss"),
            epsilon=training.spec.exploration.epsilon(training.steps)
            if training.spec.head == "q"
            else None,
            steps_per_second=self._steps.per_second,
            updates_per_second=self._updates.per_second,
            ratio_held=pacing.held,
            waiting=self._waits.look(pacing.reason),
            lag_p50=progress.lag.p50,
            lag_p95=progress.lag.p95,
            replay_size=training.replay.size,
            replay_capacity=training.replay.capacity,
            checkpoint_pause_s=self.checkpoint_pause_s,
            received=view.received,
            duplicates=view.duplicates,
            lost=view.lost,
            refused=dict(view.refused),
            actors=view.actors,
            problems=(*noticed, *view.problems, *self.problems),
            metrics=metrics,
        )

    def _look_at_the_clock(self, seconds: float) -> None:
        training = self._training
        self._steps.update(training.steps, seconds)
        self._updates.update(training.updates, seconds)
        if self._moved != (training.steps, training.updates):
            self._moved, self._moved_at = (training.steps, training.updates), seconds

    def _evaluation(self, result: EvaluationResult | None) -> EvaluationStatus | None:
        if result is None:
            return None
        self._best = max(self._best, result.mean)
        return EvaluationStatus(
            result.mean, result.episodes, result.version.number, self._best, result.length_mean
        )
