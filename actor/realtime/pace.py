"""The pace of a session at a fixed rate: its periods, and the thread beside the steps."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from farflung.actor.acting.policy import ActingPolicy
from farflung.actor.connection.port import NOTHING, Connection, Joined, Newest
from farflung.actor.external_play import Timed, Windows
from farflung.actor.realtime.alone import Alone, Answer, Choose, WithoutLearner
from farflung.actor.realtime.beside import Beside
from farflung.actor.realtime.clock import Clock
from farflung.actor.realtime.figures import RATE, figures, summary
from farflung.actor.realtime.overruns import Overruns
from farflung.actor.realtime.parts import Parts, Stopwatch, TimedPolicy
from farflung.actor.realtime.processor import keep_pauses_short
from farflung.common.protocol.messages import State

FIGURES_S = 1.0  # between two computations of the figures
UNSAID = 64  # long steps that the thread beside has not seen yet; older ones are only counted


BeginPlay = Callable[[Joined, Timed], Windows]
"""Begin to play a run, with a policy that is timed."""


class Prepared(NamedTuple):
    """The newest that the thread beside the steps has prepared, and the play of its run."""

    newest: Newest
    play: Windows | None


class Pace:
    """The periods in which a caller steps, and all that is prepared for them beside.

    These are the play of each run, and the session of each newer version.

    A step goes on from the beginning of its period until the caller asks for the next one, or until
    it ends an episode. What is done between two episodes is no step.
    """

    def __init__(
        self,
        rate_hz: float,
        connection: Connection,
        clock: Callable[[], float],
        begin_play: BeginPlay | None = None,
        without: Answer = WithoutLearner.GO_ON,
    ) -> None:
        """Start the thread beside the steps. Without `begin_play` there is nothing to prepare."""
        self._connection, self._now, self._begin_play = connection, clock, begin_play
        self._clock, self._alone = Clock(rate_hz, clock()), Alone(without)
        self._prepared = self._taken = Prepared(NOTHING, None)
        self._retired: object = None  # the play of the run before: it ends in the thread beside
        self._in_step, self._restarts = False, True
        self._begun_at = self._late_s = self._spent_s = 0.0  # of this step
        self._stopwatch, self._overruns = Stopwatch(clock), Overruns(self._clock.period_s)
        self._long: deque[tuple[int, Parts]] = deque(maxlen=UNSAID)
        self._came_at = 0.0  # the weights in use
        self._figures_at = float("-inf")
        self._closed = threading.Event()
        self._beside = Beside(connection, self._prepare, self._look, clock)
        keep_pauses_short()
        self._beside.__enter__()

    def newest(self) -> Newest:
        """Return the newest that is prepared; until then the session goes on with what it has."""
        self._beside.require_alive()
        self._taken = self._prepared
        return self._taken.newest

    @property
    def instead(self) -> Choose | None:
        """The user's function, if it chooses the actions now: no learner is there."""
        return None if self._connection.status.listens else self._alone.choose

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

    def take_over(self, joined: Joined, former: object) -> Windows:
        """Return the play of the newest run; let the former one end beside."""
        play = self._taken.play
        assert play is not None
        assert play.joined is joined
        self._retired = former
        return play

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
        late_s = None
        while late_s is None and not self._closed.is_set():
            self._closed.wait(self.left_s())
            late_s = self.begin()
        return late_s or 0.0

    def begin(self) -> float | None:
        """Begin the step of a period; return how many seconds late it is.

        None: no step is to be taken in it, since no learner is there.
        """
        self._beside.require_alive()
        status, now = self._connection.status, self._now()
        if self._alone.stops(status.listens) and status.state is not State.STOP:
            self._clock.restart(now + self._clock.period_s)
            return None
        self._in_step, self._spent_s, self._begun_at = True, 0.0, now
        self._stopwatch.restart()
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

    def _prepare(self, newest: Newest) -> None:
        """Prepare the play of another run, and a newer version, in the thread beside."""
        self._retired = None
        if self._begin_play is None or newest.joined is None or newest.weights is None:
            return
        before, play = self._prepared
        if play is None or play.joined is not newest.joined:
            play = self._begin_play(newest.joined, self.timed)
        if play is not self._prepared.play or newest.weights is not before.weights:
            play.prepare(newest.weights)
        self._prepared = Prepared(newest, play)

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
