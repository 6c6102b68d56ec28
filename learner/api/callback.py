"""Callbacks of a run, the view of it that they get, and its result. Imports nothing heavy."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from farflung.learner.observe.sinks import StatusSink
    from farflung.learner.observe.status import Status


class Episode(NamedTuple):
    """A finished training episode."""

    total_reward: float
    length: int  # steps


class Evaluation(NamedTuple):
    """Greedy episodes of one version of the weights."""

    mean: float  # of their returns
    half: float  # of the 95 % interval, which is mean ± half
    length_mean: float
    episodes: int
    version: int
    steps: int  # environment steps of the run when the evaluation came in


@dataclass(slots=True)
class Controls:
    """The parts of a run that its views act on. The default is a run that is nowhere."""

    record: Callable[[str, float], None] = lambda name, value: None
    figures: Callable[[], Mapping[str, float]] = dict
    stop: str = ""  # why a callback ends the run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run at the moment of a call. `stop` and `record` act on the run itself."""

    folder: Path
    environment: str
    algorithm: str
    steps: int = 0  # environment steps
    updates: int = 0  # gradient steps
    episodes: int = 0
    version: int = 0  # of the weights that actors have
    seconds: float = 0.0  # since the start of this process or call
    return_mean: float | None = None  # of the last 100 episodes
    length_mean: float | None = None
    evaluation: Evaluation | None = None  # the newest
    best: float | None = None  # the highest mean of an evaluation, earlier epochs included
    ending: str = ""  # why the run ends; empty before `on_end`
    controls: Controls = field(default_factory=Controls, repr=False)

    def stop(self, reason: str = "a callback asked for it") -> None:
        """End the run as if its goal were reached. The reason is shown; the first one stays."""
        self.controls.stop = self.controls.stop or str(reason) or "no reason given"

    def record(self, name: str, value: float) -> None:
        """Add a value to a metric of your own, for all screens and curves and for `until`.

        It is shown as the mean of its latest 100 values, as `train/NAME` if it has no slash.
        """
        self.controls.record(name, value)

    def figures(self) -> Mapping[str, float]:
        """Return all figures, a moment old, under their names in metrics.jsonl."""
        return self.controls.figures()


class Callback:
    """Hooks into a run: derive a class, and override some of them.

    They are called in the thread that trains, so training waits for them. An exception in a hook
    ends the run: it is saved, and `farflung.train` raises the exception.
    """

    def on_start(self, run: RunView) -> None:
        """Follow the start: actors are started, and nothing is trained yet."""

    def on_publication(self, run: RunView) -> None:
        """Follow new weights on their way to the actors: version `run.version`."""

    def on_episode(self, run: RunView, episode: Episode) -> None:
        """Follow the end of a training episode, once the replay has its steps."""

    def on_evaluation(self, run: RunView, evaluation: Evaluation) -> None:
        """Follow an evaluation that came in."""

    def on_checkpoint(self, run: RunView, checkpoint: Path) -> None:
        """Follow a checkpoint that is on disk: `checkpoints/best`, or one with a number."""

    def on_end(self, run: RunView) -> None:
        """Follow the end: the last checkpoint is written. Also called after a failure.

        A callback is left out if its `on_start` failed or was never called.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of `farflung.train`."""

    folder: Path  # of the run, for farflung.load and the commands
    reason: str  # why it ended
    steps: int
    updates: int
    episodes: int
    seconds: float
    return_mean: float | None = None  # of the last 100 training episodes
    evaluation: Evaluation | None = None  # the last one
    best: float | None = None  # the highest mean of an evaluation
    checkpoint: Path  # the last one
    parameters: str  # hash of the acting weights
    metrics: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """The last figures under their names in metrics.jsonl."""


@dataclass(frozen=True, slots=True)
class Host:
    """The surroundings of a run in a program of the user. The default is a command's process."""

    callbacks: tuple[Callback, ...] = ()
    path: tuple[str, ...] = ()  # folders in which local actors find modules, in this order
    outlives: bool = False  # True: the process goes on after the run
    screen: "StatusSink[Status] | None" = None  # in place of one of its own


HOOKS = tuple(name for name in vars(Callback) if name.startswith("on_"))


def finite(value: float) -> float | None:
    """Return a number, or None for one that is not known."""
    return value if math.isfinite(value) else None
