"""The actor's loop: join a run, play windows or evaluations, hand over parcels, join again."""

import time
from collections import deque
from collections.abc import Callable

from farflung.actor import evaluator
from farflung.actor.connection.port import EXCHANGE_S, WAIT_S, Connection, Joined, Newest
from farflung.actor.evaluator import Evaluator
from farflung.actor.opening import OpenWorld, open_play
from farflung.actor.play import Play, Playing, exploring
from farflung.actor.rules import Rules
from farflung.actor.upkeep import Upkeep
from farflung.common.data.parcel import Parcel
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who


class ActorLoop:
    """One actor at work over one connection."""

    def __init__(
        self,
        connection: Connection,
        open_world: OpenWorld,
        rules: Rules,
        stop: Stop,
        watchdog: Watchdog,
        who: Who,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection, self._work = connection, connection.work
        self._open_world, self._rules = open_world, rules
        self._stop, self._watchdog, self._who, self._clock = stop, watchdog, who, clock
        self._joined: Joined | None = None
        self._play: Play | None = None
        self._parcels: deque[Parcel] = deque()  # played, and not handed over yet
        self._exchanged_at = 0.0
        self._upkeep = Upkeep(connection, rules, stop, who)

    def run(self) -> None:
        """Take turns until stopped, or (`once`) until the run is over."""
        try:
            while not self._upkeep.over:
                if not self.turn():
                    before = self._clock()
                    self._exchange(WAIT_S)
                    self._upkeep.account.waited(self._clock() - before)
        finally:
            self.close()

    def turn(self) -> bool:
        """Play one window or evaluation if weights and room are there; return whether it played.

        While the learner has no room, nothing is played: so pacing holds collection back. The same
        holds while the learner is away: environments lose nothing by waiting, and later play under
        a newer policy.
        """
        newest = self._connection.newest
        if newest.joined is not self._joined:
            self._change_run(newest.joined)
        self._work.waits = float(not self._handed_over())
        if self._work.waits or self._play is None or not self._begin(self._play, newest):
            return False
        if self._finish(self._play):
            self._handed_over()
        return True

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
        self._play = None

    def _change_run(self, joined: Joined | None) -> None:
        """Make the world and the players of the run at our address; drop parcels of another run."""
        self.close()
        self._joined, self._work.evaluating = joined, None
        self._parcels.clear()
        if joined is None:
            return
        self._play = open_play(joined, self._open_world, self._player, self._rules, self._watchdog)

    def _player(self, joined: Joined, seats: int) -> Playing:
        if self._rules.evaluates:
            return evaluator.greedy(joined.spec, seats)
        return exploring(joined.spec, seats, joined.index, joined.start)

    def _begin(self, play: Play, newest: Newest) -> bool:
        """Begin the next window or evaluation, if there is one to play."""
        weights = newest.weights
        with self._watchdog:  # a session of a large graph takes its time
            if weights is None or not play.begin(weights, newest.steps):
                return False
        self._who.version = str(weights.version)
        if self._rules.evaluates:
            self._work.evaluating = weights.version
            with self._watchdog:
                play.reset()
        return True

    def _finish(self, play: Play) -> bool:
        """Step until a player has finished, exchanging messages now and then.

        Return False if the process must end before that.
        """
        finished = False
        while not finished:
            finished = self._step(play)
            if self._stop and not finished:
                return False
            if self._clock() - self._exchanged_at >= EXCHANGE_S:
                if self._upkeep.over:
                    return False
                self._exchange(0.0)
        for player_ in play.players.values():
            if player_.full:
                with self._watchdog:
                    parcels = player_.parcels()
                self._parcels += parcels
                for parcel in parcels:
                    self._work.episodes += len(parcel.results.returns)
                    self._upkeep.account.finished(parcel.results.returns.tolist())
        return True

    def _step(self, play: Play) -> bool:
        """Step until a player has finished, or messages are due; return whether one has."""
        clock, work = self._clock, self._work
        until = self._exchanged_at + EXCHANGE_S
        before = clock()
        with self._watchdog:
            while True:
                work.steps += play.step()
                now = clock()
                if now - before > work.longest_step_s:
                    work.longest_step_s = now - before
                if play.full or now >= until or self._stop:
                    return play.full
                before = now

    def _handed_over(self) -> bool:
        """Offer the played parcels; return whether all have left, and more may be played."""
        offered = False
        while self._parcels and self._offer(self._parcels[0]):
            self._parcels.popleft()
            offered = True
        if offered:
            self._exchange(0.0)
        return not self._parcels and self._connection.may_play

    def _offer(self, parcel: Parcel) -> bool:
        return self._joined is None or self._connection.offer(self._joined, parcel)

    def _exchange(self, timeout_s: float) -> None:
        self._connection.exchange(timeout_s)
        self._exchanged_at = now = self._clock()
        self._upkeep.look(now)
