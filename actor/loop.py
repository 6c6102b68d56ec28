"""The actor's loop: join a run, play windows or evaluations, hand over parcels, join again."""

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from farflung.actor import evaluator
from farflung.actor.account import Account
from farflung.actor.acting import spec_check
from farflung.actor.connection.port import EXCHANGE_S, WAIT_S, Connection, Joined, Newest
from farflung.actor.evaluator import Evaluator
from farflung.actor.play import Play, Playing, exploring
from farflung.actor.worlds.world import EVALUATION, World
from farflung.common.data.parcel import Parcel
from farflung.common.process.errors import ConfigurationError, Exit, PolicyTooOld
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who
from farflung.common.protocol.messages import State

log = logging.getLogger(__name__)

RENEW_S = 5.0  # between two writes of the heartbeat

OpenWorld = Callable[[Joined, str], World]
"""Make the world of a run; the second argument names the role in the seed tree."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that an actor's operator set."""

    evaluates: bool = False
    allowed: tuple[str, ...] = ()  # environments; none: all that are registered here
    once: bool = False  # end with the run
    max_policy_age_s: float = 0.0  # 0: any
    heartbeat: "Heartbeat" = field(default_factory=lambda: Heartbeat())
    learns: bool = False  # it sends gradients, and keeps its rows


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
        self._account = Account(rules.evaluates)

    def run(self) -> None:
        """Take turns until stopped, or (`once`) until the run is over."""
        try:
            while not self._over:
                if not self.turn():
                    before = self._clock()
                    self._exchange(WAIT_S)
                    self._account.waited(self._clock() - before)
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
        self._require_allowed(joined)
        evaluates = self._rules.evaluates
        # Before a world is made for it
        spec_check.require_playable(joined.spec, collects=not (evaluates or self._rules.learns))
        with self._watchdog:
            world = self._open_world(joined, EVALUATION if evaluates else "actor")
            seats = {policy: len(seats) for policy, seats in world.seats.items()}
            self._play = Play(world, {p: self._player(joined, n) for p, n in seats.items()})
            if not evaluates:
                self._play.reset()
        rounds = joined.spec.rounds
        if not evaluates and rounds is not None and joined.index >= rounds.actors:
            log.warning(
                "the rounds of this run have %d actors, and all places are taken: this actor waits",
                rounds.actors,
            )
        if not evaluates:
            count = sum(seats.values())
            log.info(
                "collecting %s as actor %d.%d: %s",
                joined.spec.world.environment,
                joined.index,
                joined.start,
                f"{count} seats" if count > 1 else "one seat",
            )

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
                if self._over:
                    return False
                self._exchange(0.0)
        for player_ in play.players.values():
            if player_.full:
                with self._watchdog:
                    parcels = player_.parcels()
                self._parcels += parcels
                for parcel in parcels:
                    self._work.episodes += len(parcel.results.returns)
                    self._account.finished(parcel.results.returns.tolist())
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
        connection = self._connection
        connection.exchange(timeout_s)
        self._exchanged_at = now = self._clock()
        if line := self._account.line(now, self._work, self._who.version):
            log.info(line)
        status = connection.status
        if 0 < self._rules.max_policy_age_s <= status.outdated_s:
            raise PolicyTooOld(
                f"for {status.outdated_s:.0f} s a newer policy than version {status.held} has been "
                "announced and has not come, although it was asked for: "
                f"--max-policy-age is {self._rules.max_policy_age_s:g}"
            )
        if self._rules.heartbeat.lost(status.sends, now):
            # An actor that plays for one run only may have missed its end.
            code = 0 if self._rules.once else Exit.UNAVAILABLE
            self._stop.set(f"no learner answers at {connection.address}", code)

    @property
    def _over(self) -> bool:
        """True when the process must end."""
        if self._rules.once and self._connection.status.state is State.STOP:
            self._stop.set("the run is over")
        return bool(self._stop)

    def _require_allowed(self, joined: Joined) -> None:
        environment = joined.spec.world.environment
        if self._rules.allowed and environment not in self._rules.allowed:
            raise ConfigurationError(
                f"the learner asks for {environment}, which --allow-env does not name here"
            )


class Heartbeat:
    """A file for supervisors, renewed while a learner sends; and the patience without one.

    An actor with a loop that stands still renews no file.
    """

    def __init__(self, patience_s: float = 0.0, heartbeat: str = "") -> None:
        self._patience_s = patience_s  # 0: without end
        self._heartbeat = Path(heartbeat) if heartbeat else None
        self._renewed_at = float("-inf")
        self._silent_since: float | None = None
        if self._heartbeat is not None:
            self._heartbeat.unlink(missing_ok=True)  # of a process before this one

    def lost(self, sends: bool, now: float) -> bool:
        """Take note; return whether no learner sent for longer than patience lasts."""
        if sends:
            self._silent_since = None
            self._renew(now)
            return False
        if self._silent_since is None:
            self._silent_since = now
        return 0 < self._patience_s <= now - self._silent_since

    def _renew(self, now: float) -> None:
        if self._heartbeat is None or now - self._renewed_at < RENEW_S:
            return
        try:
            self._heartbeat.touch()
        except OSError as error:
            raise ConfigurationError(
                f"--heartbeat {self._heartbeat} cannot be written: {error.strerror}"
            ) from error
        self._renewed_at = now
