"""The actor's loop: join a run, play windows or evaluations, hand over parcels, join again."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from farflung.actor import evaluator
from farflung.actor.connection.port import EXCHANGE_S, WAIT_S, Connections, Delivery, Joined, Newest
from farflung.actor.evaluator import Evaluator
from farflung.actor.gathering import Gathering
from farflung.actor.holding import ENVIRONMENTS, SESSION, grows
from farflung.actor.opening import OpenWorld, Runs, open_play
from farflung.actor.play import Play, exploring
from farflung.actor.playing import Playing
from farflung.actor.rules import Rules
from farflung.actor.times import Part, Times
from farflung.actor.tracing import Tracing
from farflung.actor.upkeep import Upkeep
from farflung.actor.worlds.world import World
from farflung.common.data.parcel import Parcel
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who


class ActorLoop:
    """One actor at work: a world, and for each of its policies a player and a delivery."""

    def __init__(
        self,
        connection: Connections,
        open_world: OpenWorld,
        rules: Rules,
        stop: Stop,
        watchdog: Watchdog,
        who: Who,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection, self._work, self._spans = connection, connection.work, connection.spans
        self._tracing = Tracing(connection.spans)
        self._deliveries: Mapping[str, Delivery] = connection.deliveries
        self._gathering = Gathering(connection)
        self._open_world, self._rules = open_world, rules
        self._stop, self._watchdog, self._who, self._clock = stop, watchdog, who, clock
        self._play: Play | None = None
        self._begun: Play | None = None  # the last one of which a window began
        self._runs: Runs = {}  # that it is of
        # Played, and not handed over yet: with the run that they are of.
        self._parcels: dict[str, deque[tuple[Joined, Parcel]]] = {}
        self._exchanged_at = 0.0
        self._upkeep = Upkeep(connection, rules, stop, who)
        self._times = Times(connection.work.seconds, clock)

    def run(self) -> None:
        """Take turns until stopped, or (`once`) until the run is over."""
        try:
            while not self._upkeep.over:
                if not self.turn():
                    self._wait()
                self._times.turned()
        finally:
            self.close()

    def turn(self) -> bool:
        """Play until a window or evaluation is over, if weights and room are there.

        Return whether it played. While a learner has no room, nothing is played: so pacing holds
        collection back. The same holds while the only learner is away: environments lose nothing by
        waiting, and later play under a newer policy.
        """
        if self._gathering.changed():
            self._change_runs()
        self._hand_over()
        play, waits = self._play, self._wait_for_room()
        if waits or play is None or not self._begin(play):
            return False
        with self._spans.span("window"):
            finished = self._finish(play)
        if finished:
            self._hand_over()
        return True

    def _wait(self) -> None:
        """Wait for a message, and count the time as what it is waited for."""
        part, before = self._waits_for, self._clock()
        self._exchange(WAIT_S)
        waited_s = self._clock() - before
        self._upkeep.account.waited(waited_s)
        self._times.waited(part, waited_s)

    @property
    def _waits_for(self) -> Part:
        statuses = [delivery.status for delivery in self._deliveries.values()]
        if self._play is None or not all(status.sends for status in statuses):
            return Part.LEARNER
        sent = any(status.ledger.sent.parcels for status in statuses)
        return Part.DELIVERY if sent else Part.ROOM

    @property
    def _away(self) -> list[str]:
        """The policies that play on without their learner."""
        return [policy for policy, delivery in self._deliveries.items() if delivery.away]

    @property
    def left(self) -> int:
        """Episodes that the present evaluation has still to play; 0 where none is played."""
        players = self._play.players.values() if self._play is not None else ()
        return sum(player.left for player in players if isinstance(player, Evaluator))

    def summary(self) -> str:
        """Return no line: the account has a line a minute."""
        return ""

    def close(self) -> None:
        """Close the environments."""
        if self._play is not None:
            self._play.world.close()
        self._play = self._begun = None

    def _change_runs(self) -> None:
        """Make the world and the players of the runs that were joined.

        Of a world that was played for other runs, the rows of those that go on are kept.
        """
        if self._play is not None and not self._rules.evaluates:
            for policy, player in self._play.players.items():
                goes_on = self._deliveries[policy].newest.joined is self._runs[policy]
                if goes_on and not player.full:
                    self._take(self._play, [policy])
        self.close()
        self._runs = runs = self._gathering.runs
        for delivery in self._deliveries.values():
            delivery.work.evaluating = None
        if runs:
            how = self._open, self._player, self._rules, self._watchdog
            weights = {policy: self._deliveries[policy].newest.weights for policy in runs}
            with grows(self._work, ENVIRONMENTS):
                self._play = open_play(runs, *how, weights)

    def _open(self, runs: Runs, role: str) -> World:
        world = self._open_world(runs, role)
        (policy, joined), *others = runs.items()
        if joined.spec.selfplay is None or self._rules.evaluates:
            return world
        if others:
            raise ConfigurationError(f"{policy} has a pool, and others play in its world too")
        from farflung.actor.selfplay.pooled import PooledWorld

        return PooledWorld(world, joined, self._deliveries[policy], self._stop.wait, self._clock)

    def _player(self, joined: Joined, seats: int) -> Playing:
        if self._rules.evaluates:
            return evaluator.greedy(joined.spec, seats)
        return exploring(joined.spec, seats, joined.index, joined.start)

    def _begin(self, play: Play) -> bool:
        """Begin the next window or evaluation of each policy that has finished, if all can."""
        newest = {policy: self._deliveries[policy].newest for policy in play.players}
        for policy, one in newest.items():
            if one.joined is not self._runs[policy]:
                return False  # another run has come since the last look
        with self._watchdog:  # a session of a large graph takes its time
            self._tracing.look(play)
            if not self._begin_each(play, newest):
                return False
        versions = {policy: one.weights.version for policy, one in newest.items() if one.weights}
        self._who.version = " ".join(map(str, versions.values()))
        if self._rules.evaluates:
            for policy, version in versions.items():
                self._deliveries[policy].work.evaluating = version
            with self._watchdog:
                play.reset()
        return True

    def _begin_each(self, play: Play, newest: Mapping[str, Newest]) -> bool:
        """Begin the windows; note what the sessions of the first ones take."""
        if play is self._begun:
            return play.begin_each(newest, self._away)
        with grows(self._work, SESSION):
            if play.begin_each(newest, self._away):
                self._begun = play
        return play is self._begun

    def _finish(self, play: Play) -> bool:
        """Step until a player has finished, exchanging messages now and then.

        Return False if the process must end before that. Evaluations end together.
        """
        players, evaluates, finished = play.players, self._rules.evaluates, False
        while not finished:
            finished = self._step(play)
            if evaluates and finished:
                finished = all(player.full for player in players.values())
            if self._stop and not finished:
                return False
            if self._clock() - self._exchanged_at >= EXCHANGE_S:
                if self._upkeep.over and not finished:
                    return False
                self._exchange(0.0)
        self._take(play, [policy for policy, player in players.items() if player.full])
        self._take(play, play.spare)
        return True

    def _step(self, play: Play) -> bool:
        """Step until a player has finished, or messages are due; return whether one has."""
        clock, work = self._clock, self._work
        until = self._exchanged_at + EXCHANGE_S
        begun = before = clock()
        timed: Times | None = self._times  # the first of these steps
        self._times.begin()
        with self._watchdog:
            while True:
                work.steps += play.step(timed)
                timed, now = None, clock()
                if now - before > work.longest_step_s:
                    work.longest_step_s = now - before
                if play.full or now >= until or self._stop:
                    self._times.played(now - begun)
                    return play.full
                before = now

    def _take(self, play: Play, policies: Iterable[str]) -> None:
        """Take what these policies have played."""
        for policy in policies:
            with self._watchdog, self._spans.span("pack"):
                parcels = play.players[policy].parcels()
            waiting = self._parcels.setdefault(policy, deque())
            for parcel in parcels:
                waiting.append((self._runs[policy], parcel))
                self._deliveries[policy].work.episodes += len(parcel.results.returns)
                self._upkeep.account.finished(parcel.results.returns.tolist())

    def _hand_over(self) -> None:
        """Offer the played parcels, as far as there is room."""
        offered = False
        for policy, parcels in self._parcels.items():
            while parcels and self._deliveries[policy].offer(*parcels[0]):
                parcels.popleft()
                offered = True
        if offered:
            self._exchange(0.0)

    def _wait_for_room(self) -> bool:
        """Return whether a policy that has finished cannot go on, and tell its learner."""
        waits = False
        for policy, delivery in self._deliveries.items():
            player = self._play.players.get(policy) if self._play is not None else None
            full = player is None or player.full
            blocked = full and (bool(self._parcels.get(policy)) or not delivery.may_play)
            delivery.work.waits = float(blocked)
            waits = waits or blocked
        return waits

    def _exchange(self, timeout_s: float) -> None:
        with self._spans.span("waiting" if timeout_s else "exchange"):
            self._connection.exchange(timeout_s)
        self._exchanged_at = now = self._clock()
        self._upkeep.look(now)
