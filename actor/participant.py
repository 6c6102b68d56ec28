"""One seat of a learner's run, in a world that its owner steps. It says when to wait, and for what.

`ActorSession` waits in its caller's thread, `AsyncActorSession` on an event loop.
"""

import logging
import secrets
import socket
from collections import deque
from collections.abc import Callable, Generator, Mapping
from typing import Any

import numpy as np

from farflung.actor.acting import spec_check
from farflung.actor.connection.inline import InlineConnection
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.port import EXCHANGE_S, WAIT_S, Connection, Joined, Newest
from farflung.actor.connection.sockets import Sockets
from farflung.actor.connection.threaded import ThreadedConnection
from farflung.actor.play import exploring
from farflung.actor.scores import Scores
from farflung.actor.worlds.external import NO_INFO, ExternalWorld
from farflung.actor.worlds.world import Turn
from farflung.common import heads
from farflung.common.data.fields import default_name
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import INTERVENED, Spec
from farflung.common.data.weights import Version, Weights
from farflung.common.net import sockets
from farflung.common.net.address import parse_address
from farflung.common.net.keys import client_keys_for, full_name
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol.ledger import Ledger
from farflung.common.protocol.messages import State
from farflung.common.protocol.outbox import WhenFull

log = logging.getLogger(__name__)

FIRST_LINE_S = 0.8  # without an answer: a learner that is there sends its beacon every second
NO_ANSWER = (
    "no learner answers at %s yet (its feed: port %d). Is `learner` running there, with --bind and "
    "--port as this address has them, and are both ports open? This session goes on asking"
)

Waits = Generator[float, None, Any]
"""Seconds to wait for messages, one exchange after the other; 0 exchanges without waiting."""


class Participant:
    """All that sessions have in common: they differ in how they wait."""

    def __init__(
        self,
        address: str,
        *,
        policy: str,
        name: str,
        keys: str,
        feed_port: int | None,
        join_within_s: float,
        patience_s: float,
        when_full: WhenFull,
        waiting_bytes: int,
        threaded: bool,
        clock: Callable[[], float],
    ) -> None:
        where = parse_address(address, feed_port)
        key_pair = client_keys_for(where, keys)
        name = full_name(key_pair, name or default_name(socket.gethostname(), secrets.randbits(24)))
        self._clock, self._join_within_s, self._patience_s = clock, join_within_s, patience_s
        self._begun_at = self._acted_at = self._exchanged_at = clock()
        self._missed = False  # the line about a missing learner was written
        self._scores = Scores(1)  # an episode may span two runs
        self._joined: Joined | None = None
        self._weights: Weights | None = None  # of the window
        self._open = False  # a window has begun
        self._shown = False  # an observation, and no action was chosen for it
        self._leaving: deque[Parcel] = deque()  # of a window that is over, not yet offered
        self._handing_over = False  # such a window, until the learner has room for the next one
        self._acknowledged = False  # all of it, once closed
        client = PolicyClient(
            policy, name, seats=1, when_full=when_full, waiting_bytes=waiting_bytes
        )
        context = sockets.context()
        self._context: sockets.Context | None = context
        self._feed_port = where.feed_port

        def connect() -> Sockets:
            return Sockets(context, where, client, clock, key_pair)

        self._connection: Connection = (
            ThreadedConnection(client, where, connect, clock)
            if threaded
            else InlineConnection(client, connect(), clock)
        )
        self._work = self._connection.work

    @property
    def spec(self) -> Spec:
        """The spec of the learner's run: world, spaces, horizon."""
        return self._place.spec

    @property
    def version(self) -> Version:
        """The version of the weights that it acts with; 0.0 before the first action."""
        return self._weights.version if self._weights else Version(0, 0)

    @property
    def ledger(self) -> Ledger:
        """The counts of all that was recorded and has left its window."""
        return self._connection.status.ledger

    @property
    def over(self) -> bool:
        """True once the learner has ended its run. A caller that goes on joins the next run."""
        return self._connection.status.state is State.STOP

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
    ) -> None:
        """Record the outcome of the last action. This never waits.

        After an ending, the next observation begins another episode, and `info` has the metrics of
        the last one, such as `is_success`. Else the observation of the next `act` counts. `action`
        is the one really taken, where a person or a script replaced that of `act`. `intervened`
        marks the step for a learner with --interventions; by default, if its action was replaced.
        """
        spec = self.spec
        taken = None if action is None else self._world.taken(action)
        replaced = taken is not None and not np.array_equal(taken, self._player.chosen)
        if replaced or intervened:
            _require_kept(spec, bool(intervened))
        longest_s = max(self._work.longest_step_s, self._clock() - self._acted_at)
        self._world.record(reward, terminated, truncated, next_observation, info)
        if replaced or intervened:
            self._player.replace(
                self._player.chosen if taken is None else taken,
                replaced if intervened is None else bool(intervened),
            )
        self._work.longest_step_s = longest_s
        self._work.steps += 1
        self._work.episodes += bool(terminated or truncated)  # no report can hold numpy's own

    @property
    def _place(self) -> Joined:
        if self._joined is None:
            raise ValueError("no learner has answered yet: wait until `ready` is true")
        return self._joined

    def _take_part(self, newest: Newest) -> bool:
        """Take the place that the learner handed out, if one has come; return whether we have one.

        The first second without an answer ends with a line.
        """
        if newest.joined is not self._joined and newest.joined is not None:
            self._change_run(newest.joined)
        if self._joined is not None:
            return True
        if not self._missed and self._clock() - self._begun_at >= FIRST_LINE_S:
            self._missed = True
            log.warning(NO_ANSWER, self._connection.address, self._feed_port)
        return False

    def _joining(self) -> Waits:
        """Wait for the learner's snapshot."""
        log.info("joining the learner at %s", self._connection.address)
        deadline = self._clock() + self._join_within_s
        while not self._take_part(self._connection.newest):
            if self._clock() >= deadline:
                raise ConfigurationError(
                    f"no learner answered at {self._connection.address} within "
                    f"{self._join_within_s:g} s: is one running there?"
                )
            yield WAIT_S

    def _change_run(self, joined: Joined) -> None:
        """Take part in the run at our address; the window of an earlier run is dropped."""
        spec = joined.spec
        spec_check.require_playable(spec)
        self._player = exploring(spec, 1, joined.index, joined.start, self._scores)
        self._greedy = heads.find(spec.head).greedy(spec)
        self._joined, self._spec = joined, spec
        self._world = ExternalWorld(spec, self._connection.problem)
        self._open = self._shown = self._handing_over = False
        self._leaving.clear()
        self._scores.take()

    def _acting(self, observation: Any, explore: bool, info: Mapping[str, Any]) -> Waits:
        """Wait where that is needed, then return the action for an observation."""
        if self._context is None:
            raise ValueError("the session is closed")
        joined, turn = self._place, self._see(observation, info)
        if self._open and self._player.full:
            self._end_window()
            self._handing_over = True
        if self._handing_over:
            yield from self._hand_over()
        elif self._clock() - self._exchanged_at >= EXCHANGE_S:
            yield 0.0
        newest = self._connection.newest
        self._take_part(newest)
        if self._joined is not joined:
            turn = self._see(observation, info)
        if not self._open:
            weights = newest.weights if newest.joined is self._joined else None
            self._begin_window(weights or self._weights, newest.steps)
        due = turn.due[self._spec.policy]
        action = self._player.act(due, None if explore else self._greedy)[0]
        self._world.acted()
        self._shown, self._acted_at = False, self._clock()
        return action.copy() if self._spec.action.shape else int(action)

    def _see(self, observation: Any, info: Mapping[str, Any]) -> Turn:
        turn = self._world.see(observation, info)
        if self._shown and not self._open:  # a wait between two windows was given up
            self._player.forget()
        self._record(turn)
        self._shown = True
        return turn

    def _record(self, turn: Turn) -> None:
        policy = self._spec.policy
        self._player.record(turn.outcomes.get(policy), turn.due.get(policy))

    def _begin_window(self, weights: Weights | None, steps: int) -> None:
        assert weights is not None
        self._weights, self._open = weights, True
        self._player.begin(weights, steps)

    def _end_window(self) -> None:
        self._open = False
        self._leaving += self._player.parcels()

    def _hand_over(self) -> Waits:
        """Offer a window until there is room, then wait until a learner that listens has room."""
        connection = self._connection
        while self._leaving:
            if connection.offer(self._place, self._leaving[0]):
                self._leaving.popleft()
            else:
                yield WAIT_S
        yield 0.0
        deadline = self._clock() + self._patience_s
        while (
            not connection.may_play
            and connection.status.listens
            and (now := self._clock()) < deadline
        ):
            yield min(WAIT_S, deadline - now)
        self._handing_over = False

    def _exchange(self, timeout_s: float = 0.0) -> None:
        self._work.waits = float(timeout_s > 0)
        self._connection.exchange(timeout_s)
        self._exchanged_at = self._clock()

    def _leave(self) -> bool:
        """Offer all that was recorded; return whether there was room for it."""
        if self._joined is None:
            return True
        turn = self._world.rest()
        if turn is not None:
            self._record(turn)
        if self._open:
            self._end_window()
        while self._leaving and self._connection.offer(self._joined, self._leaving[0]):
            self._leaving.popleft()
        return not self._leaving

    def _disconnect(self, reason: str, patience_s: float) -> None:
        assert self._context is not None
        self._acknowledged = self._connection.close(reason, patience_s)
        self._context.term()
        self._context = None


def _require_kept(spec: Spec, marked: bool) -> None:
    """Refuse an intervention that the rows of this spec could not show."""
    if INTERVENED in spec.extras:
        return
    if marked:
        raise ConfigurationError(
            "intervened=True, and the learner records no interventions: start it with "
            "--interventions"
        )
    computed = heads.find(spec.head).columns(spec)
    if own := [extra.name for extra in spec.extras if extra in computed]:
        raise ConfigurationError(
            f"the learner records {own[0]} of the policy's own action, and could not tell the "
            "steps with another one: start it with --interventions"
        )
