"""A learner's run in a world that its owner steps. It says when to wait, and for what.

`ActorSession` waits in its caller's thread, `AsyncActorSession` beside an event loop.
"""

import logging
import math
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from farflung.actor.connection.opened import Opened
from farflung.actor.connection.policy_client import WAITING_BYTES, PolicyClient
from farflung.actor.connection.port import WAIT_S, Joined, Newest
from farflung.actor.external_play import Evaluations, Windows, evaluations, windows
from farflung.actor.membership import Membership, Waits
from farflung.actor.realtime.pace import Pace, require_rate
from farflung.actor.scores import Scores
from farflung.actor.window_waits import WindowWaits
from farflung.actor.worlds.external import NO_INFO
from farflung.common.data.fields import default_name
from farflung.common.data.parcel import Ending
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version
from farflung.common.net.address import parse_address
from farflung.common.net.keys import client_keys_for, full_name
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol.ledger import Ledger
from farflung.common.protocol.messages import State
from farflung.common.protocol.outbox import WhenFull

log = logging.getLogger(__name__)

CLOSED = "the session was closed"


class Participant:
    """All that sessions have in common: they differ in how they wait."""

    THREADED = False  # the sockets have a thread of their own, asked for or not

    def __init__(
        self,
        address: str = "127.0.0.1:5555",
        *,
        policy: str = "default",
        name: str = "",
        keys: str = "",
        feed_port: int | None = None,
        seats: int = 1,
        evaluate: bool = False,
        join_within_s: float = math.inf,
        patience_s: float | None = None,
        when_full: WhenFull | None = None,
        waiting_bytes: int = WAITING_BYTES,
        threaded: bool | None = None,
        rate: float = 0.0,
        wait: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if seats < 1:
            raise ConfigurationError(f"seats={seats}: a session has at least one")
        own_thread = self.THREADED or rate != 0
        if threaded is False and own_thread:
            raise ConfigurationError(
                "on an event loop, and at a fixed rate, the sockets have a thread of their own: "
                "leave threaded=False out"
            )
        if rate:
            require_rate(rate)
        where = parse_address(address, feed_port)
        key_pair = client_keys_for(where, keys)
        name = full_name(key_pair, name or default_name(socket.gethostname(), secrets.randbits(24)))
        full = when_full or (WhenFull.DROP_OLDEST if rate else WhenFull.WAIT)
        client = PolicyClient(policy, name, seats, evaluate, full, waiting_bytes)
        self._evaluates, self._clock = evaluate, clock
        self._join_within_s, self._waits_for_learner = join_within_s, wait
        self._acted_at = [clock()] * seats
        self._scores = Scores(seats)  # an episode may span two runs
        form = {"threaded": bool(threaded or own_thread), "aside": rate != 0}
        self._opened = Opened(where, client, key_pair, clock=clock, **form)
        self._connection, self._work = self._opened.connection, self._opened.work
        self._pace = Pace(rate, self._connection, clock) if rate else None
        self._member = Membership(self._opened, where.feed_port, self._begin_play, clock)
        patience_s = patience_s if patience_s is not None else 0.0 if rate else math.inf
        self._windows = WindowWaits(self._opened, self._member, self._pace, patience_s, clock)
        self._open()

    def _open(self) -> None:
        """Join, if the constructor does."""

    @property
    def ready(self) -> bool:
        """True once spec and weights of a run are here. To ask looks for messages until then."""
        if self._member.play is None:
            self._opened.exchange()
            self._member.take_part()
        return self._member.play is not None

    @property
    def spec(self) -> Spec:
        """The spec of the learner's run: world, spaces, horizon."""
        return self._member.playing.joined.spec

    @property
    def version(self) -> Version:
        """The version of the weights that it acts with; 0.0 before the first action."""
        weights = self._member.weights
        return weights.version if weights else Version(0, 0)

    @property
    def ledger(self) -> Ledger:
        """The counts of all that was recorded and has left its window."""
        return self._connection.status.ledger

    @property
    def over(self) -> bool:
        """True once the learner has ended its run. A caller that goes on joins the next run."""
        return self._connection.status.state is State.STOP

    @property
    def alone(self) -> bool:
        """True while no learner is there that takes what is sent."""
        return not self._connection.status.listens

    @property
    def timing(self) -> Mapping[str, float]:
        """The figures of a session with a `rate`, by name: steps, missed, late_p99_s and others."""
        return self._paced.timing

    @property
    def lost_steps(self) -> int:
        """The count of actions without a recorded outcome."""
        return self._member.lost_steps

    def record(
        self,
        reward: float,
        terminated: bool,
        truncated: bool,
        next_observation: Any,
        info: Mapping[str, Any] = NO_INFO,
        *,
        action: Any = None,
        intervened: bool | None = None,
        seat: int = 0,
    ) -> bool:
        """Record the outcome of a seat's last action; return whether its episode is over.

        This never waits. After an ending, the next observation begins another episode, and `info`
        has the metrics of the last one, such as `is_success`. Else the observation of the next
        `act` counts. `action` is the one really taken, where a person or a script replaced that of
        `act`. `intervened` marks the step for a learner with --interventions; by default, if its
        action was replaced. An evaluation cuts an episode after --evaluate-max-steps.
        """
        asked_at = self._clock()
        ending = Ending.TERMINATED if terminated else Ending.TRUNCATED if truncated else Ending.OPEN
        ending = self._member.playing.record(
            reward, ending, next_observation, info, seat=seat, action=action, intervened=intervened
        )
        if self._pace is not None:
            self._pace.spent(asked_at)
        work, took_s = self._work, self._clock() - self._acted_at[seat]
        work.longest_step_s = max(work.longest_step_s, took_s)
        work.steps += 1
        if ending is Ending.OPEN:
            return False
        work.episodes += 1
        if self._pace is not None:
            self._pace.end_episode()
        return True

    def lost(self, reason: str = "", *, seat: int = 0) -> bool:
        """Leave out a seat's last step, which cannot be recorded; return whether there is one.

        The window is cut there, and what follows counts as another episode: no transition leads
        across. A step that was recorded is left out too, unless it ended its episode. It is
        counted, and the learner's screen shows the reason.
        """
        found = self._member.playing.lose(seat)
        self._work.lost_steps = self.lost_steps
        if found and reason:
            self._connection.problem("lost", f"a step was lost: {reason}")
        return found

    def metric(self, name: str, value: Any, *, seat: int = 0) -> None:
        """Add a value to a metric of a seat's episode, `is_success` or one of --metrics.

        The metric is the mean of the values that its episode was told, until the first observation
        of the next one. What is no finite number is left out, and the learner's screen names it.
        """
        self._member.playing.world.metric(name, value, seat)

    def episodes_left(self, seat: int = 0) -> int:
        """Return how many episodes of the evaluation a seat has still to play; 0: none goes on."""
        play = self._evaluating
        if results := play.rest():
            self._member.offer(results)
            self._opened.exchange()
        return play.left(seat)

    @property
    def _paced(self) -> Pace:
        if self._pace is None:
            raise ValueError("this session has no clock: open one with rate=HZ")
        return self._pace

    @property
    def _evaluating(self) -> Evaluations:
        play = self._member.playing
        if isinstance(play, Evaluations):
            return play
        raise ValueError("this session collects: open one with evaluate=True for evaluations")

    def _begin_play(self, joined: Joined) -> Windows | Evaluations:
        """Take part in a run; results of the one before it are dropped."""
        seats, report = len(self._acted_at), self._connection.problem
        if self._evaluates:
            if not joined.spec.evaluation.every:
                log.warning("this learner wants no evaluations: start it with --evaluate-every")
            return evaluations(joined, seats, report)
        if joined.spec.rounds is not None and self._pace is not None:
            raise ConfigurationError(
                "a learner with --mode sync has rounds, and they are its clock: leave rate= out"
            )
        self._scores.take()
        if self._pace is None:
            return windows(joined, seats, self._scores, report)
        play = windows(joined, seats, self._scores, report, self._pace.timed)
        self._pace.serve(joined, play.prepare)
        return play

    def _joining(self) -> Waits:
        if self._waits_for_learner:
            yield from self._member.joining(self._join_within_s)

    def _acting(self, observation: Any, explore: bool, info: Mapping[str, Any], seat: int) -> Waits:
        """Wait where that is needed, then return the action for an observation."""
        if self._opened.closed:
            raise ValueError("the session is closed")
        asked_at = self._clock()
        play = self._member.playing
        play.see(observation, info, seat)
        if isinstance(play, Windows):
            play = yield from self._windows.open(play, observation, info, seat)
        else:
            self._opened.exchange_in_time()
        self._work.lost_steps = self.lost_steps
        action = play.act(explore, seat)
        self._acted_at[seat] = self._clock()
        if self._pace is not None:
            self._pace.spent(asked_at)
        return action

    def _beginning(self, patience_s: float) -> Waits:
        """Wait until an evaluation is due, and begin it; return whether one goes on."""
        deadline = self._clock() + patience_s
        while not self._opened.closed:
            self._opened.exchange()
            newest = self._member.take_part()
            if self._member.play is not None and self._begin(self._evaluating, newest):
                return True
            if self.over or (now := self._clock()) >= deadline:
                break
            yield self._opened.wait(min(WAIT_S, deadline - now))
        return False

    def _begin(self, play: Evaluations, newest: Newest) -> bool:
        """Begin an evaluation if one is due; return whether one goes on."""
        if not self._member.offer(play.rest()):
            return False
        weights = newest.weights if newest.joined is play.joined else None
        if not play.open and weights is not None and play.begin(weights, newest.steps):
            self._member.weights, self._work.evaluating = weights, weights.version
        return play.open

    def _closing(self, reason: str, patience_s: float) -> Waits:
        """Leave the run; return whether all was acknowledged."""
        if self._pace is not None and not self._opened.closed:
            yield self._pace.close
            if line := self._pace.summary:
                log.info(line)
        acknowledged: bool = yield from self._member.closing(reason, patience_s)
        return acknowledged

    def _abandon(self, error: BaseException) -> None:
        """Close a session that did not join."""
        if self._pace is not None:
            self._pace.close()
        self._opened.close(str(error), 0.0)

    def _reason(self, error: BaseException | None) -> str:
        """Return the reason of an end; tell the learner of an error."""
        if error is None:
            return CLOSED
        self._connection.problem("ended", repr(error))
        return repr(error)
