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
from farflung.actor.connection.port import Joined
from farflung.actor.evaluation_waits import EvaluationWaits
from farflung.actor.external_play import Evaluations, Timed, Windows, evaluations, windows
from farflung.actor.membership import Membership, Waits
from farflung.actor.realtime.alone import Answer, Choose, WithoutLearner
from farflung.actor.realtime.pace import Pace
from farflung.actor.scores import Scores
from farflung.actor.session_options import require_options
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
        without_learner: Answer = WithoutLearner.GO_ON,
        wait: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        own_thread = self.THREADED or rate != 0
        require_options(seats, rate, evaluate, without_learner)
        if threaded is False and own_thread:
            raise ConfigurationError(
                "on an event loop, and at a fixed rate, the sockets have a thread of their own: "
                "leave threaded=False out"
            )
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
        prepared = None if evaluate else self._prepare_windows
        self._pace = (
            Pace(rate, self._connection, clock, prepared, without_learner) if rate else None
        )
        newest = self._pace.newest if self._pace and prepared else lambda: self._connection.newest
        self._member = Membership(self._opened, where.feed_port, self._begin_play, newest, clock)
        self._evaluating = EvaluationWaits(self._opened, self._member, clock)
        self._held: set[int] = set()  # seats with an action of `without_learner`
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
        if seat in self._held:
            self._leave_out(seat)
        else:
            how: Any = {"seat": seat, "action": action, "intervened": intervened}
            ending = self._member.playing.record(reward, ending, next_observation, info, **how)
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
        return self._evaluating.left(seat)

    @property
    def _paced(self) -> Pace:
        if self._pace is None:
            raise ValueError("this session has no clock: open one with rate=HZ")
        return self._pace

    def _leave_out(self, seat: int) -> None:
        """Leave out a step that the caller's function took."""
        self._held.discard(seat)
        if self._member.play is not None:
            self._member.play.lose(seat)

    def _begin_play(self, joined: Joined) -> Windows | Evaluations:
        """Take part in a run; results of the one before it are dropped."""
        seats, report = len(self._acted_at), self._connection.problem
        if self._evaluates:
            if not joined.spec.evaluation.every:
                log.warning("this learner wants no evaluations: start it with --evaluate-every")
            return evaluations(joined, seats, report)
        self._scores.take()
        if self._pace is None:
            return windows(joined, seats, self._scores, report)
        return self._pace.take_over(joined, self._member.play)

    def _prepare_windows(self, joined: Joined, timed: Timed) -> Windows:
        """Return the play of a run, beside the steps at a fixed rate."""
        if joined.spec.rounds is not None:
            raise ConfigurationError(
                "a learner with --mode sync has rounds, and they are its clock: leave rate= out"
            )
        seats, report = len(self._acted_at), self._connection.problem
        return windows(joined, seats, self._scores, report, timed)

    def _joining(self) -> Waits:
        if self._waits_for_learner:
            yield from self._member.joining(self._join_within_s)

    def _acting(self, observation: Any, explore: bool, info: Mapping[str, Any], seat: int) -> Waits:
        """Wait where that is needed, then return the action for an observation."""
        if self._opened.closed:
            raise ValueError("the session is closed")
        asked_at = self._clock()
        instead = self._pace.instead if self._pace is not None else None
        if instead is not None and not self.ready:
            return self._hold(instead, observation, seat)
        play = self._member.playing
        play.see(observation, info, seat)
        if isinstance(play, Windows):
            play = yield from self._windows.open(play, observation, info, seat)
        else:
            self._opened.exchange_in_time()
        self._work.lost_steps = self.lost_steps
        action = play.act(explore, seat)
        self._held.discard(seat)
        if self._pace is not None:
            self._pace.spent(asked_at)
        if instead is not None:
            return self._hold(instead, observation, seat)
        self._acted_at[seat] = self._clock()
        return action

    def _hold(self, instead: Choose, observation: Any, seat: int) -> Any:
        """Return the action of the caller's function; that step will not be recorded."""
        self._held.add(seat)
        self._acted_at[seat] = self._clock()
        return instead(observation)

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
