"""The clock of an actor at a fixed rate: when steps are due, late, too long or left out.

Periods lie on a grid, so nothing drifts. A period that has passed as a whole is left out and never
made up for: a robot does not act twice for one observation.
"""

from farflung.actor.realtime.lateness import Lateness

MOST_HZ = 10_000  # a period of 0.1 ms, as long as the wake-up of a thread may take


class Clock:
    """The periods of one rate. It takes the time as an argument."""

    def __init__(self, rate_hz: float, now: float) -> None:
        """Begin the first period now."""
        self.rate_hz = rate_hz
        self.period_s = 1 / rate_hz
        self.steps = 0  # that began
        self.missed = 0  # that ended after their period
        self.skipped = 0  # periods in which none began
        self.lateness = Lateness()  # of steps: from when they were due until they began
        self._start, self._number = now, 0

    @property
    def due(self) -> float:
        """Return the time at which the next step is due."""
        return self._start + self._number / self.rate_hz

    def begin(self, now: float) -> float:
        """Begin a step; return how late it is, in seconds.

        It belongs to the period that goes on now. Those before it are left out. A step that is
        later than a period counts with all of its delay.
        """
        late_s = max(0.0, now - self.due)
        passed = int(late_s * self.rate_hz)
        self.steps += 1
        self.skipped += passed
        self._number += passed
        self.lateness.add(late_s)
        return late_s

    def end(self, now: float) -> float:
        """End the step; return by how many seconds it ran over its period."""
        self._number += 1
        over_s = max(0.0, now - self.due)
        self.missed += over_s > 0
        return over_s

    def restart(self, now: float) -> None:
        """Begin a period now, after a time in which no step was wanted: nothing is late by that."""
        self._start, self._number = now, 0
