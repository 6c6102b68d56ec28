"""Destinations of a status: terminal, files, feed. Each has its own pace; none ends a run."""

import logging
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

log = logging.getLogger(__name__)


class Tolerant:
    """Calls functions that may fail without harm to the run; names each new failure in the log."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._logged = ""

    def __call__(self, function: Callable[[], object]) -> None:
        """Call the function. A closed terminal or a full disk may pass, so it is tried again."""
        try:
            function()
        except Exception as error:  # a fault of ours in what people see is not worth the run either
            failure = f"{type(error).__name__}: {error}"
            if failure != self._logged:
                log.warning("%s cannot be written, the run goes on: %s", self._name, failure)
            self._logged = failure


class Shown(Protocol):
    """The parts of a status by which a destination knows that it is due."""

    @property
    def seconds(self) -> float:
        """The time since the start."""

    @property
    def state(self) -> str:
        """The state of the run or the team."""

    @property
    def evaluation(self) -> object:
        """The newest evaluation, of whichever form."""


S = TypeVar("S", bound=Shown)


class StatusSink(Generic[S]):
    """Passes on a status now and then, however often it is shown one. It never raises."""

    def __init__(
        self,
        name: str,
        write: Callable[[S], None],
        interval_s: float,
        leave: Callable[[], None] | None = None,
        evaluations: bool = True,
    ) -> None:
        self._write = write
        self._leave = leave
        self._interval_s = interval_s
        self._evaluations = evaluations  # True: each of them is news
        self._next_s = 0.0
        self._news: object = None
        self._tolerant = Tolerant(name)

    def show(self, status: S) -> None:
        """Pass it on if it is due or has news: another state, an evaluation."""
        news = (status.state, status.evaluation if self._evaluations else None)
        if status.seconds < self._next_s and news == self._news:
            return
        self._news = news
        self._next_s = status.seconds + self._interval_s
        self._tolerant(lambda: self._write(status))

    def close(self, status: S) -> None:
        """Pass on the last figures, due or not, and close files and terminal."""
        self._tolerant(lambda: self._write(status))
        if self._leave is not None:
            self._tolerant(self._leave)
