"""The objective of a trial over its steps, as its run writes it into metrics.jsonl."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from farflung.learner.runs.reading import METRICS as FILE
from farflung.learner.runs.reading import STEPS, figures_in

EVALUATION = "eval/mean_reward"
METRICS = {
    "evaluation": EVALUATION,
    "return": "rollout/ep_rew_mean",
    "steps": STEPS,
    "updates": "train/n_updates",
    "episodes": "time/episodes",
    "seconds": "time/time_elapsed",
}  # the words of --until, as metrics.jsonl names them

Point = tuple[int, float]  # steps, and the figure then


class Take(StrEnum):
    """The figure of a curve that counts."""

    BEST = "best"
    LAST = "last"
    MEAN = "mean"


def taken(points: Sequence[Point], take: Take, maximize: bool) -> float | None:
    """Return the figure that counts; None for an empty curve."""
    values = [value for _, value in points]
    if not values:
        return None
    if take is Take.BEST:
        return max(values) if maximize else min(values)
    return values[-1] if take is Take.LAST else sum(values) / len(values)


def marks(points: Sequence[Point], every: int) -> dict[int, float]:
    """Return the figure at each whole number of `every` steps: the first one from there on.

    Trials evaluate at slightly different steps; at marks they can be compared.
    """
    found: dict[int, float] = {}
    newest = 0
    for steps, value in points:
        mark = steps // every
        if mark > newest:
            found[mark], newest = value, mark
    return found


def judged(points: Sequence[Point], every: int, mean_of: int) -> dict[int, float]:
    """Return the figure at each mark by which a trial is judged: the mean of its last ones.

    A single evaluation is noisy, so there is none before so many marks have figures.
    """
    found = marks(points, every)
    values = list(found.values())
    return {
        mark: sum(values[end - mean_of : end]) / mean_of
        for end, mark in enumerate(found, start=1)
        if end >= mean_of
    }


class Curve:
    """Follows the curve of a run that may be at work."""

    def __init__(self, folder: Path, metric: str) -> None:
        self.points: list[Point] = []
        self.steps = 0  # as of the newest line
        self._path, self._metric = folder / FILE, metric
        self._read_to = 0

    def follow(self) -> None:
        """Read the lines that were added. A torn line is read once it is whole."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read_to)
                content = file.read()
        except OSError:
            return
        whole = content.rfind(b"\n") + 1
        self._read_to += whole
        for line in content[:whole].splitlines():
            figures = figures_in(line)
            self.steps = int(figures.get(STEPS, self.steps))
            if self._metric in figures:
                self.points.append((self.steps, figures[self._metric]))
