"""A run as its learner shows it on the feed: the newest status, and the curves of all of them."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from farflung.learner.dashboard.curves import Curves
from farflung.learner.observe.metrics import scalars
from farflung.learner.observe.status import EvaluationStatus, Status

EVALUATIONS = 1000  # of one run that are listed; the curve goes on
HEARD_S = 5.0  # a learner sends its status every second; after so long it counts as silent
RETURN, SPREAD = "rollout/ep_rew_mean", "rollout/ep_rew_std"
EVALUATION = "eval/mean_reward"
# Curves that have a place in any run's table, however many metrics of its own it has.
FIRST = (
    *(RETURN, SPREAD, EVALUATION, "eval/best_mean_reward", "rollout/ep_len_mean"),
    *("time/fps", "train/updates_per_second", "train/loss", "replay/size"),
    *("pacing/replay_ratio", "pacing/replay_ratio_wanted", "pacing/waiting"),
    *("pacing/policy_lag_p50", "pacing/policy_lag_p95", "actors/present"),
    *("network/in", "network/out", "machine/cpu", "machine/memory"),
)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation, as a row of a table."""

    time: float  # seconds since 1970
    steps: float
    mean: float | None
    best: float | None = None
    version: int | None = None
    episodes: int | None = None


class Past(Protocol):
    """The course of a run so far."""

    curves: Curves
    evaluations: deque[Evaluation]


class LiveRun:
    """One run on the feed. Not for several threads at once."""

    def __init__(self, status: Status, address: str, wall: float, now: float) -> None:
        self.address = address
        self.status = status
        self.curves = Curves(FIRST)
        self.evaluations: deque[Evaluation] = deque(maxlen=EVALUATIONS)
        self.seeded = False  # the past that its folder has is in the curves
        self.serial = 0  # statuses that came
        self.heard = now  # by the monotonic clock
        self._epochs = {status.epoch}
        self._evaluation: EvaluationStatus | None = None
        self.take(status, address, wall, now)

    @property
    def starts(self) -> int:
        """Starts of the learner that were heard: more than one after a kill or a resume."""
        return len(self._epochs)

    def take(self, status: Status, address: str, wall: float, now: float) -> None:
        """Take the next status."""
        self.status, self.address, self.heard = status, address, now
        self.serial += 1
        if len(self._epochs) < EVALUATIONS:
            self._epochs.add(status.epoch)
        figures = figures_of(status)
        if status.evaluation == self._evaluation:
            figures = {n: value for n, value in figures.items() if not n.startswith("eval/")}
        elif status.evaluation is not None:
            found = self._evaluation = status.evaluation
            self.evaluations.append(
                Evaluation(
                    wall, status.steps, found.mean, found.best, found.version, found.episodes
                )
            )
        self.curves.add(wall, status.steps, figures)

    def begin_with(self, past: "Past") -> None:
        """Take the curves of the run's folder, which reach back to its beginning, and go on."""
        self.seeded = True
        if len(past.curves) > len(self.curves):
            self.curves, self.evaluations = past.curves, past.evaluations

    def is_heard(self, now: float) -> bool:
        """Return True while its learner sends its status."""
        return self.silent_s(now) < HEARD_S

    def silent_s(self, now: float) -> float:
        """Return how long it has not been heard."""
        return max(0.0, now - self.heard)


def figures_of(status: Status) -> dict[str, float]:
    """Return all figures of a status that make curves: those of metrics.jsonl, and of the parts."""
    further: Mapping[str, float | None] = {
        "pacing/replay_ratio_wanted": status.ratio_wanted,
        "pacing/waiting": status.waiting.share,
        "network/in": status.bytes_in_per_second,
        "network/out": status.bytes_out_per_second,
        "machine/cpu": status.cpu,
        "machine/memory": float(status.memory),
        **{f"split/{part}": seconds for part, seconds in status.update_split.items()},
    }
    return scalars(status) | {n: value for n, value in further.items() if value is not None}
