"""Failures of environments: reported, waited after, and in the end too many."""

import logging
import traceback
from collections.abc import Callable
from typing import Any

from farflung.common.process.errors import ConfigurationError, EnvironmentFailure
from farflung.common.process.text import indented

log = logging.getLogger(__name__)

Environment = Any  # a user's

FAILURES = 5  # so many
FAILURES_WITHIN_S = 300.0  # in this time are too many
FIRST_PAUSE_S = 0.25  # before a rebuild; doubled with each failure in that time


class Failures:
    """The recent failures of a world's environments."""

    def __init__(
        self,
        report: Callable[[str, str], None],
        wait: Callable[[float], object],
        clock: Callable[[], float],
    ) -> None:
        self._report, self._wait, self._clock = report, wait, clock
        self._times: list[float] = []
        self._last, self._same = "", 0  # the last traceback, and how often it came

    def add(self, error: Exception) -> None:
        """Report an error and pause before the next try; raise at the fifth in five minutes.

        A world that only declares its spaces, as for a robot, never has a step: raise at once.
        """
        if isinstance(error, NotImplementedError):
            raise ConfigurationError(
                "this environment cannot be played here: its reset() or step() is not implemented"
            ) from error
        self.report(error)
        now = self._clock()
        self._times = [time for time in self._times if now - time < FAILURES_WITHIN_S] + [now]
        if len(self._times) >= FAILURES:
            minutes = FAILURES_WITHIN_S / 60
            raise EnvironmentFailure(
                f"the environment failed {FAILURES} times in {minutes:.0f} minutes, "
                f"at last with {error!r}"
            ) from error
        self._wait(FIRST_PAUSE_S * 2 ** (len(self._times) - 1))

    def remake(self, make: Callable[[], Environment], error: Exception) -> Environment:
        """Return another environment after an error. To fail again is one failure more."""
        self.add(error)
        try:
            return make()
        except Exception as again:  # a user's code
            return self.remake(make, again)

    def report(self, error: Exception) -> None:
        """Report an error with its traceback; log the same one once."""
        text = "".join(traceback.format_exception(error))
        self._report("environment", text)
        self._same = self._same + 1 if text == self._last else 1
        if self._same > 1:
            log.warning("the environment failed in the same way, %d times by now", self._same)
        else:
            log.warning("%s", indented(f"the environment failed\n{text}"))
        self._last = text

    def close(self, environment: Environment) -> None:
        """Close an environment. If even that fails, report it and go on."""
        try:
            environment.close()
        except Exception as error:  # a user's code
            self.report(error)
