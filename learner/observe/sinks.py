"""Where statuses go: the terminal, files, the feed. Each outlet keeps its own pace, and none can end a training."""

import logging
from collections.abc import Callable

from farflung.learner.observe.status import Status


class StatusSink:
    """Takes a status as often as one likes, and passes it on every so often. It never raises."""

    def __init__(
        self,
        name: str,
        write: Callable[[Status], None],
        interval_s: float,
        leave: Callable[[], None] | None = None,
        evaluations: bool = True,
    ) -> None:
        self._name = name
        self._write = write
        self._leave = leave
        self._interval_s = interval_s
        self._evaluations = evaluations  # whether each of them is news
        self._next_s = 0.0
        self._news: object = None
        self._said = ""

    def show(self, status: Status) -> None:
        """Pass this on if it is time, or if there is news: another state, an evaluation."""
        news = (status.state, status.evaluation if self._evaluations else None)
        if status.seconds < self._next_s and news == self._news:
            return
        self._news = news
        self._next_s = status.seconds + self._interval_s
        self._guarded(lambda: self._write(status))

    def close(self, status: Status) -> None:
        """Pass on the last figures, whatever the pace, and let go of files and terminal."""
        self._guarded(lambda: self._write(status))
        if self._leave is not None:
            self._guarded(self._leave)

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # a closed terminal, a full disk or a fault of ours: none is worth the run, and it may pass
            words = f"{type(error).__name__}: {error}"
            if words != self._said:
                logging.getLogger(__name__).warning(
                    "%s cannot be written, the run goes on: %s", self._name, words
                )
            self._said = words
