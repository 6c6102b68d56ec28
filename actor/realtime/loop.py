"""The step thread of an actor at a fixed rate: it owns environments and inference, and never waits.

Messages, decoding and files belong to the thread of the connection, sessions and all else to the
one beside it. A window ends and the next begins between two steps, in the slack.
"""

import logging
import select
import time
from collections import deque
from collections.abc import Callable

from farflung.actor.acting.policy import Policy
from farflung.actor.connection.port import (
    NOTHING,
    WAIT_S,
    Connection,
    Joined,
    Newest,
    require_alone,
)
from farflung.actor.opening import OpenWorld, Runs, open_play
from farflung.actor.play import Play, exploring
from farflung.actor.playing import Playing
from farflung.actor.realtime.alone import Alone, Answer, WithoutLearner
from farflung.actor.realtime.beside import Beside
from farflung.actor.realtime.clock import Clock
from farflung.actor.realtime.figures import figures, summary
from farflung.actor.realtime.held import HeldWorld
from farflung.actor.realtime.overruns import Overruns
from farflung.actor.realtime.parts import Parts, Stopwatch, TimedPolicy, TimedWorld
from farflung.actor.realtime.processor import keep_pauses_short
from farflung.actor.rules import Rules
from farflung.actor.tracing import Tracing
from farflung.actor.upkeep import Upkeep
from farflung.actor.worlds.world import World
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who

log = logging.getLogger(__name__)

FIGURES_S = 1.0  # between two computations of the figures
UNSAID = 64  # overruns that the thread beside has not seen yet; older ones are only counted


class RateLoop:
    """One actor at a fixed rate. Its connection has a thread of its own."""

    def __init__(
        self,
        connection: Connection,
        open_world: OpenWorld,
        rules: Rules,
        stop: Stop,
        watchdog: Watchdog,
        who: Who,
        *,
        rate_hz: float,
        without: Answer = WithoutLearner.GO_ON,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection, self._work, self._spans = connection, connection.work, connection.spans
        self._tracing = Tracing(connection.spans)
        self._open_world, self._rules = open_world, rules
        self._stop, self._watchdog, self._who, self._now = stop, watchdog, who, now
        self._upkeep = Upkeep(connection, rules, stop, who)
        self._clock, self._alone = Clock(rate_hz, now()), Alone(without)
        self._stopwatch, self._overruns = Stopwatch(now), Overruns(self._clock.period_s)
        self._long: deque[tuple[int, Parts]] = deque(maxlen=UNSAID)
        self._beside = Beside(connection, self._prepare, self._look, now)
        self._served: tuple[Joined | None, tuple[Policy, ...]] = (None, ())
        self._prepared = NOTHING  # the newest of which each session is built
        self._joined: Joined | None = None
        self._play: Play | None = None
        self._in_window = False
        self._policies: list[Policy] = []
        self._came_at = 0.0  # the weights in use
        self._figures_at = float("-inf")

    def run(self) -> None:
        """Step at the rate until stopped, or (`once`) until the run is over."""
        try:
            with self._beside as beside:
                while not self._upkeep.over:
                    beside.require_alive()
                    joined = self._connection.newest.joined
                    if joined is not self._joined:
                        self._change_run(joined)
                    if self._play is None:
                        self._stop.wait(WAIT_S)
                    elif self._may_step(self._play):
                        self._step(self._play)
        finally:
            self._close()

    def summary(self) -> str:
        """Return the figures of all steps in one line; empty if there were none."""
        if not self._clock.steps:
            return ""
        return summary(self._figures(self._now()), self._connection.status.ledger)

    # ---- the step thread

    def _may_step(self, play: Play) -> bool:
        """Wait until a step is due; return whether to take it."""
        if not (self._in_window or self._begin(play)):
            self._stop.wait(min(WAIT_S, self._clock.period_s))
            self._clock.restart(self._now())
            return False
        # select() counts in microseconds, and poll() in milliseconds.
        left_s = max(0.0, self._clock.due - self._now())
        if select.select([self._stop], [], [], left_s)[0]:
            return False
        if self._alone.stops(self._connection.status.listens):
            self._clock.restart(self._now() + self._clock.period_s)
            return False
        return True

    def _step(self, play: Play) -> None:
        """Take a step; after the last one of a window begin the next window."""
        clock, work = self._clock, self._work
        begun = self._now()
        late_s = clock.begin(begun)
        self._stopwatch.restart()
        with self._watchdog:
            work.steps += play.step()
            if play.full:
                self._end_window(play)
                self._begin(play)
        ended = self._now()
        work.longest_step_s = max(work.longest_step_s, ended - begun)
        if clock.end(ended):
            self._long.append((clock.steps, self._stopwatch.parts(late_s, ended - begun)))

    def _begin(self, play: Play) -> bool:
        """Begin a window on the newest weights that are prepared; return whether there are any."""
        newest = self._prepared
        if newest.joined is not self._joined or newest.weights is None:
            return False
        self._tracing.look(play)
        self._came_at = newest.came_at
        self._who.version = str(newest.weights.version)
        self._in_window = play.begin(newest.weights, newest.steps)
        return self._in_window

    def _end_window(self, play: Play) -> None:
        """Hand over what was played. A mailbox or outbox that is full drops its oldest."""
        assert self._joined is not None
        self._in_window = False
        for player in play.players.values():
            with self._spans.span("pack"):
                parcels = player.parcels() if player.full else []
            for parcel in parcels:
                self._work.episodes += len(parcel.results.returns)
                self._upkeep.account.finished(parcel.results.returns.tolist())
                self._connection.offer(self._joined, parcel)

    # ---- the run

    def _change_run(self, joined: Joined | None) -> None:
        """Make the world and the players of the run at our address."""
        self._close()
        self._joined = joined
        if joined is None:
            return
        if joined.spec.rounds is not None:
            raise ConfigurationError(
                "--rate steps on its own clock, and the rounds of a learner with --mode sync have "
                "another one: leave --rate out"
            )
        if joined.spec.selfplay is not None:
            raise ConfigurationError("--rate plays against no pool of opponents: leave it out")
        require_alone(joined.spec.policy, joined.spec.world.seats, "--rate")
        runs = {joined.spec.policy: joined}
        self._play = open_play(runs, self._open, self._player, self._rules, self._watchdog)
        keep_pauses_short()
        self._served = joined, tuple(self._policies)

    def _open(self, runs: Runs, role: str) -> World:
        world: World = TimedWorld(self._open_world(runs, role), self._stopwatch)
        if self._alone.choose is None:
            return world
        (joined,) = runs.values()
        return HeldWorld(world, joined.spec, self._alone, self._work)

    def _player(self, joined: Joined, seats: int) -> Playing:
        policy = Policy(joined.spec.graph)
        self._policies.append(policy)
        timed = TimedPolicy(policy, self._stopwatch)
        return exploring(joined.spec, seats, joined.index, joined.start, policy=timed)

    def _close(self) -> None:
        """Close the environments."""
        if self._play is not None:
            self._play.world.close()
        self._play, self._policies, self._in_window = None, [], False

    # ---- the thread beside

    def _prepare(self, newest: Newest) -> None:
        """Build the sessions of a newer version of the run that is played."""
        joined, policies = self._served
        if newest.joined is not joined or newest.weights is None:
            return
        before = self._prepared
        if newest.joined is not before.joined or newest.weights is not before.weights:
            for policy in policies:
                policy.prepare(newest.weights)
        self._prepared = newest

    def _look(self, now: float) -> None:
        """Look after the actor: its log, its figures, and those who watch it."""
        self._upkeep.look(now)
        while self._long:
            self._overruns.add(*self._long.popleft())
        if sentence := self._overruns.sentence(now):
            log.warning(sentence)
            self._connection.problem("rate", sentence)
        if now - self._figures_at >= FIGURES_S:
            self._figures_at = now
            self._work.timing = self._figures(now)

    def _figures(self, now: float) -> dict[str, float]:
        age_s = now - self._came_at if self._came_at else 0.0
        return figures(self._clock, self._overruns.causes, self._alone, age_s)
