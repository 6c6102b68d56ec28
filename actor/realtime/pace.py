"""The pace of a session at a fixed rate: its periods, and the thread beside the steps."""

import threading
from collections import deque
from collections.abc import Callable, Mapping

from farflung.actor.connection.port import Connection, Joined, Newest
from farflung.actor.play import ActingPolicy
from farflung.actor.realtime.alone import Alone
from farflung.actor.realtime.beside import Beside, Prepare
from farflung.actor.realtime.clock import MOST_HZ, Clock
from farflung.actor.realtime.figures import RATE, figures, summary
from farflung.actor.realtime.overruns import Overruns
from farflung.actor.realtime.parts import Parts, Stopwatch, TimedPolicy
from farflung.actor.realtime.processor import keep_pauses_short
from farflung.common.process.errors import ConfigurationError

FIGURES_S = 1.0  # between two computations of the figures
UNSAID = 64  # long steps that the thread beside has not seen yet; older ones are only counted


class Pace:
    """The periods in which a caller steps, and sessions of newer weights that are built aside.

    A step goes on from the beginning of its period until the caller asks for the next one, or until
    it ends an episode. What is done between two episodes is no step.
    """

    def __init__(self, rate_hz: float, connection: Connection, clock: Callable[[], float]) -> None:
        """Start the thread beside the steps."""
        require_rate(rate_hz)
        self._connection, self._now = connection, clock
        self._clock, self._alone = Clock(rate_hz, clock()), Alone()
        self._in_step, self._restarts = False, True
        self._begun_at = self._late_s = self._spent_s = 0.0  # of this step
        self._stopwatch, self._overruns = Stopwatch(clock), Overruns(self._clock.period_s)
        self._long: deque[tuple[int, Parts]] = deque(maxlen=UNSAID)
        self._came_at = 0.0  # the weights in use
        self._figures_at = float("-inf")
        self._closed = threading.Event()
        self._beside = Beside(connection, self._look, clock)
        keep_pauses_short()
        self._beside.__enter__()

    @property
    def prepared(self) -> Newest:
        """The newest weights that are prepared, and their run."""
        return self._beside.prepared

    @property
    def timing(self) -> Mapping[str, float]:
        """The figures of all steps by name."""
        return {name.removeprefix(RATE): value for name, value in self._figures().items()}

    def timed(self, policy: ActingPolicy) -> ActingPolicy:
        """Return a policy of which the answers count as inference."""
        return TimedPolicy(policy, self._stopwatch)

    def spent(self, since: float) -> None:
        """Count the time since then as ours; the rest of a step is the caller's."""
        self._spent_s += self._now() - since

    def serve(self, joined: Joined, prepare: Prepare) -> None:
        """Prepare each newer version of this run from now on."""
        self._beside.serve(joined, prepare)

    def left_s(self) -> float:
        """End the step that goes on; return the seconds until the next period."""
        self._end_step()
        now = self._now()
        if self._restarts and self._clock.due < now:
            self._clock.restart(now)
        self._restarts = False
        return max(0.0, self._clock.due - now)

    def wait(self) -> float:
        """Wait for the next period and begin its step; return how many seconds late it is."""
        self._closed.wait(self.left_s())
        return self.begin()

    def begin(self) -> float:
        """Begin the step of a period; return how many seconds late it is."""
        self._beside.require_alive()
        self._in_step, self._spent_s, self._begun_at = True, 0.0, self._now()
        self._stopwatch.restart()
        self._alone.stops(self._connection.status.listens)
        self._late_s = self._clock.begin(self._begun_at)
        return self._late_s

    def end_episode(self) -> None:
        """End the step that goes on; what the caller does before the next one is not late."""
        self._end_step()
        self._restarts = True

    def took(self, weights: Newest) -> None:
        """Note the weights in use."""
        self._came_at = weights.came_at

    @property
    def summary(self) -> str:
        """The figures in one line, or "" if there was no step."""
        if not self._clock.steps:
            return ""
        return summary(self._figures(), self._connection.status.ledger)

    def close(self) -> None:
        """End the thread beside the steps."""
        self._closed.set()
        self._beside.__exit__(None, None, None)

    def _end_step(self) -> None:
        if not self._in_step:
            return
        self._in_step, now = False, self._now()
        if self._clock.end(now):
            watch = self._stopwatch
            watch.environment_s = now - self._begun_at - self._spent_s
            parts = watch.parts(self._late_s, now - self._begun_at)
            self._long.append((self._clock.steps, parts))

    def _look(self, now: float) -> None:
        """Name steps that were too long, and renew the figures, in the thread beside."""
        while self._long:
            self._overruns.add(*self._long.popleft())
        if sentence := self._overruns.sentence(now):
            self._connection.problem("rate", sentence)
        if now - self._figures_at >= FIGURES_S:
            self._figures_at = now
            self._connection.work.timing = self._figures()

    def _figures(self) -> dict[str, float]:
        age_s = self._now() - self._came_at if self._came_at else 0.0
        return figures(self._clock, self._overruns.causes, self._alone, age_s)


def require_rate(rate_hz: float) -> None:
    """Refuse a rate that no clock has."""
    if not 0 < rate_hz <= MOST_HZ:  # NaN is not either
        raise ConfigurationError(f"rate={rate_hz:g}: choose one up to {MOST_HZ:,} Hz")
