"""The time of training, journal, network thread and actors over the last seconds, for a verdict."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from farflung.common.data.statistics import Rate, Shares
from farflung.learner.config import LearnerConfig
from farflung.learner.core.pacing import Cause, Pacing
from farflung.learner.observe.endpoint_status import EndpointStatus
from farflung.learner.observe.status import ActorState, ActorStatus
from farflung.learner.observe.verdict import Bound, Figures, Verdict, judge
from farflung.learner.schedule.rounds import round_updates

COLLECTS = (ActorState.RUNNING, ActorState.WAITING)
# While these last, one side waits for something else than the other.
APART = (Cause.PAUSE, Cause.WARMUP, Cause.ACTORS, Cause.EVALUATION, Cause.GRADIENTS)


class TimeSplit:
    """Measures shares of time, and judges them."""

    def __init__(self, config: LearnerConfig, pacing: Pacing) -> None:
        # Seconds of the training thread by part, since the start.
        self.seconds: Callable[[], Mapping[str, float]] = dict
        self._training, self._disk, self._network = Shares(), Rate(), Rate()
        self._config = config
        self._knob = f"--{config.algorithm}.epochs" if pacing.rollout else "--replay-ratio"
        self._knob = "--round-updates" if round_updates(config) else self._knob
        self._found: Counter[str] = Counter()
        self._sentences: dict[str, str] = {}

    def look(
        self, view: EndpointStatus, cause: str, processors: float | None, seconds: float
    ) -> dict[str, Any]:
        """Return the fields of a status, `seconds` after the start."""
        if self._config.mode == "sequential":
            return {}  # one thread does all, in turns
        self._training.update(self.seconds(), seconds)
        self._disk.update(view.disk_s, seconds)
        self._network.update(view.network_s, seconds)
        found = Figures(
            learner=self._training.parts,
            actors=mean_time(view.actors),
            disk=_share(self._disk),
            network=_share(self._network),
            processors=(processors or 0.0) / 100,
            hanging={actor.name: actor.hangs_s for actor in view.actors if _hangs(actor)},
            environment=self._config.environment,
            knob=self._knob,
            synced=self._config.durability == "fsync",
        )
        return {
            "training_time": found.learner,
            "actors_time": found.actors,
            "disk_busy": found.disk,
            "network_busy": found.network,
            "verdict": self._judge(found, cause),
        }

    @property
    def mostly(self) -> str:
        """The newest sentence of the verdict that the run had most often; empty without one."""
        return self._sentences[self._found.most_common(1)[0][0]] if self._found else ""

    def _judge(self, found: Figures, cause: str) -> Verdict:
        verdict = judge(found)
        if cause in APART and verdict.bound != Bound.HANGS:
            return Verdict()
        if verdict.sentence:
            self._found[verdict.bound] += 1
            self._sentences[verdict.bound] = verdict.sentence
        return verdict


def mean_time(actors: Sequence[ActorStatus]) -> dict[str, float]:
    """Return the mean shares of the time of the actors that collect, by part."""
    times = [actor.time for actor in actors if actor.state in COLLECTS and actor.time]
    parts = {part: None for time in times for part in time}
    return {part: fmean(time.get(part, 0.0) for time in times) for part in parts}


def _hangs(actor: ActorStatus) -> bool:
    return actor.hangs_s > 0 and actor.state != ActorState.LEFT


def _share(rate: Rate) -> float:
    return min(1.0, rate.per_second or 0.0)
