"""The callbacks of a run at work: events are noticed after each action of training."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from farflung.common.process.text import printable
from farflung.learner.api.callback import Callback, Controls, Episode, Evaluation, RunView, finite
from farflung.learner.core.core import Core
from farflung.learner.core.progress import EvaluationResult
from farflung.learner.storage.saver import Saver

SENTENCE_LETTERS = 300  # of an error in a sentence; the log has its traceback

log = logging.getLogger(__name__)


class Callbacks:
    """Calls a user's callbacks, and keeps what they wish. For the training thread."""

    def __init__(self, core: Core, saver: Saver) -> None:
        self.controls = Controls(core.record)
        self.failed = ""  # the sentence about a callback that raised
        self.failure: Exception | None = None
        self._all: tuple[Callback, ...] = ()
        self._started: list[Callback] = []
        self._core, self._saver = core, saver
        self._lasting = RunView(folder=Path(), environment="", algorithm="")
        self._started_at = 0.0
        self._version = core.state.version
        self._checkpoints = self._newest()
        self._result: EvaluationResult | None = None
        self._evaluation: Evaluation | None = None  # the same for callbacks

    def follow(
        self,
        callbacks: tuple[Callback, ...],
        view: RunView,
        figures: Callable[[], Mapping[str, float]],
        started_at: float,
    ) -> None:
        """Let these callbacks follow the run that a view describes."""
        self.controls.figures = figures
        self._all, self._started_at = callbacks, started_at
        self._lasting = replace(view, controls=self.controls)

    @property
    def verdict(self) -> str:
        """Why the run is to end, by the wish of a callback or the failure of one."""
        return self.failed or (
            self.controls.stop and f"stopped by a callback: {self.controls.stop}"
        )

    @contextmanager
    def told(self, verdict: Callable[[], str]) -> Iterator[None]:
        """Call `on_start` before a run, and `on_end` after it in any case."""
        self._start()
        try:
            yield
            self.look()
        except BaseException as error:
            self._end(f"failed: {type(error).__name__}: {one_line(error)}")
            raise
        self._end(verdict())

    def look(self) -> None:
        """Call the hooks of all that happened since the last look."""
        if not self._started:
            return
        if self._core.state.version != self._version:
            self._version = self._core.state.version
            self._tell("on_publication")
        heard, self._core.progress.heard = self._core.progress.heard, []
        for one in heard or ():
            if isinstance(one, Episode):
                self._tell("on_episode", one)
            else:
                self._tell("on_evaluation", evaluation(one))
        best, last = self._checkpoints
        self._checkpoints = self._newest()
        if self._checkpoints != (best, last):
            if self._checkpoints[0] != best:
                self._tell("on_checkpoint", self._saver.best.path)
            if self._checkpoints[1] != last:
                self._tell("on_checkpoint", Path(self._checkpoints[1]))

    def view(self) -> RunView:
        """Return the run as it is now."""
        core, progress = self._core, self._core.progress
        if progress.evaluation is not self._result:
            self._result = progress.evaluation
            self._evaluation = None if self._result is None else evaluation(self._result)
        newest = self._evaluation
        return replace(
            self._lasting,
            steps=core.state.steps,
            updates=core.state.updates,
            episodes=progress.episodes,
            version=core.state.version.number,
            seconds=time.monotonic() - self._started_at,
            return_mean=progress.return_mean,
            length_mean=progress.length_mean,
            evaluation=newest,
            best=finite(max(self._saver.best.mean, newest.mean if newest else float("-inf"))),
        )

    def _start(self) -> None:
        """Call `on_start`, and listen from now on."""
        if not self._all:
            return
        self._core.progress.heard = []
        self._version = self._core.state.version
        self._checkpoints = self._newest()
        for callback in self._all:
            if not self.failed and self._call(callback, "on_start", self.view()):
                self._started.append(callback)

    def _end(self, reason: str) -> None:
        """Call `on_end` of every callback that was started, also of one that failed since."""
        view = replace(self.view(), ending=reason)
        for callback in self._started:
            self._call(callback, "on_end", view)

    def _newest(self) -> tuple[str, str]:
        """Return texts that change with the checkpoints on disk: the best one and the last one."""
        return self._saver.best.sentence, self._saver.saved

    def _tell(self, hook: str, *facts: object) -> None:
        view = self.view()
        for callback in self._started:
            if not self.failed:
                self._call(callback, hook, view, *facts)

    def _call(self, callback: Callback, hook: str, *facts: Any) -> bool:
        try:
            getattr(callback, hook)(*facts)
        except Exception as error:  # a user's code
            where = f"{type(callback).__name__}.{hook}"
            log.exception("the callback %s failed, and the run ends", where)
            if self.failure is None:
                self.failure = error
                kind = type(error).__name__
                self.failed = f"the callback {where} failed: {kind}: {one_line(error)}"
            return False
        return True


def one_line(error: BaseException) -> str:
    """Return the words of an error as one line of bounded length."""
    return printable(" ".join(str(error).split()), SENTENCE_LETTERS)


def evaluation(result: EvaluationResult) -> Evaluation:
    """Return an evaluation as callbacks see it."""
    return Evaluation(
        result.mean,
        result.interval.half,
        result.length_mean,
        result.episodes,
        result.version.number,
        result.steps,
    )
