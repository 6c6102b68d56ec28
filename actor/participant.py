"""A learner's run in a world that its owner steps. It says when to wait, and for what.

`ActorSession` waits in its caller's thread, `AsyncActorSession` beside an event loop.
"""

import logging
import math
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any

from farflung.actor.connection.inline import InlineConnection
from farflung.actor.connection.policy_client import WAITING_BYTES, PolicyClient
from farflung.actor.connection.port import EXCHANGE_S, WAIT_S, Connection, Joined, Newest
from farflung.actor.connection.sockets import Sockets
from farflung.actor.connection.threaded import ThreadedConnection
from farflung.actor.external_play import ExternalPlay, explored
from farflung.actor.scores import Scores
from farflung.actor.worlds.external import NO_INFO
from farflung.common.data.fields import default_name
from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version, Weights
from farflung.common.net import sockets
from farflung.common.net.address import Address, parse_address
from farflung.common.net.keys import ClientKeys, client_keys_for, full_name
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

CLOSED = "the session was closed"

Waits = Generator[Callable[[], None], None, Any]
"""Calls that take time, one after the other, for the owner to make; then the result."""


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
        join_within_s: float = math.inf,
        patience_s: float = math.inf,
        when_full: WhenFull = WhenFull.WAIT,
        waiting_bytes: int = WAITING_BYTES,
        threaded: bool | None = None,
        wait: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if threaded is False and self.THREADED:
            raise ConfigurationError(
                "on an event loop the sockets have a thread of their own: leave threaded=False out"
            )
        where = parse_address(address, feed_port)
        key_pair = client_keys_for(where, keys)
        name = full_name(key_pair, name or default_name(socket.gethostname(), secrets.randbits(24)))
        self._clock, self._join_within_s, self._patience_s = clock, join_within_s, patience_s
        self._waits_for_learner = wait
        self._begun_at = self._acted_at = self._exchanged_at = clock()
        self._missed = False  # the line about a missing learner was written
        self._scores = Scores(1)  # an episode may span two runs
        self._play: ExternalPlay | None = None  # since the learner handed out a place
        self._weights: Weights | None = None  # of the window
        self._leaving: deque[Parcel] = deque()  # of a window that is over, not yet offered
        self._handing_over = False  # such a window, until the learner has room for the next one
        self._acknowledged = False  # all of it, once closed
        client = PolicyClient(policy, name, 1, when_full=when_full, waiting_bytes=waiting_bytes)
        self._feed_port = where.feed_port
        self._connect(client, where, key_pair, threaded or self.THREADED)
        self._work = self._connection.work
        self._open()

    def _connect(
        self, client: PolicyClient, where: Address, keys: ClientKeys | None, threaded: bool
    ) -> None:
        context, clock = sockets.context(), self._clock
        self._context: sockets.Context | None = context

        def connect() -> Sockets:
            return Sockets(context, where, client, clock, keys)

        self._connection: Connection = (
            ThreadedConnection(client, where, connect, clock)
            if threaded
            else InlineConnection(client, connect(), clock)
        )

    def _open(self) -> None:
        """Join, if the constructor does."""

    @property
    def ready(self) -> bool:
        """True once spec and weights of a run are here. To ask looks for messages until then."""
        if self._play is None:
            self._exchange()
            self._take_part(self._connection.newest)
        return self._play is not None

    @property
    def spec(self) -> Spec:
        """The spec of the learner's run: world, spaces, horizon."""
        return self._playing.joined.spec

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
        ending = Ending.TERMINATED if terminated else Ending.TRUNCATED if truncated else Ending.OPEN
        longest_s = max(self._work.longest_step_s, self._clock() - self._acted_at)
        self._playing.record(reward, ending, next_observation, info, action, intervened)
        self._work.longest_step_s = longest_s
        self._work.steps += 1
        self._work.episodes += ending is not Ending.OPEN

    @property
    def _playing(self) -> ExternalPlay:
        if self._play is None:
            raise ValueError("no learner has answered yet: wait until `ready` is true")
        return self._play

    def _take_part(self, newest: Newest) -> bool:
        """Take the place that the learner handed out, if one has come; return whether we have one.

        The first second without an answer ends with a line.
        """
        joined = newest.joined
        if joined is not None and (self._play is None or self._play.joined is not joined):
            self._change_run(joined)
        if self._play is not None:
            return True
        if not self._missed and self._clock() - self._begun_at >= FIRST_LINE_S:
            self._missed = True
            log.warning(NO_ANSWER, self._connection.address, self._feed_port)
        return False

    def _change_run(self, joined: Joined) -> None:
        """Take part in the run at our address; the window of an earlier run is dropped."""
        self._play = explored(joined, self._scores, self._connection.problem)
        self._handing_over = False
        self._leaving.clear()
        self._scores.take()

    def _joining(self) -> Waits:
        """Wait for the learner's snapshot, unless told not to."""
        log.info("joining the learner at %s", self._connection.address)
        deadline = self._clock() + self._join_within_s
        while self._waits_for_learner and not self._take_part(self._connection.newest):
            if self._clock() >= deadline:
                raise ConfigurationError(
                    f"no learner answered at {self._connection.address} within "
                    f"{self._join_within_s:g} s: is one running there?"
                )
            yield self._messages(WAIT_S)

    def _acting(self, observation: Any, explore: bool, info: Mapping[str, Any]) -> Waits:
        """Wait where that is needed, then return the action for an observation."""
        if self._context is None:
            raise ValueError("the session is closed")
        play = self._playing
        play.see(observation, info)
        try:
            yield from self._between_windows(play)
        except BaseException:  # it was given up: no action follows on what was seen
            play.forget()
            raise
        newest = self._connection.newest
        self._take_part(newest)
        if self._playing is not play:
            play = self._playing
            play.see(observation, info)
        if not play.open:
            weights = newest.weights if newest.joined is play.joined else None
            self._weights = weights or self._weights
            assert self._weights is not None
            play.begin(self._weights, newest.steps)
        action = play.act(explore)
        self._acted_at = self._clock()
        return action

    def _between_windows(self, play: ExternalPlay) -> Waits:
        """Hand over a window that is over; else look for messages now and then."""
        if play.full:
            self._leaving += play.end()
            self._handing_over = True
        if self._handing_over:
            yield from self._hand_over(play)
        elif self._clock() - self._exchanged_at >= EXCHANGE_S:
            self._exchange()

    def _hand_over(self, play: ExternalPlay) -> Waits:
        """Offer a window until there is room, then wait until a learner that listens has room."""
        connection = self._connection
        while self._leaving:
            if connection.offer(play.joined, self._leaving[0]):
                self._leaving.popleft()
            else:
                yield self._messages(WAIT_S)
        self._exchange()
        deadline = self._clock() + self._patience_s
        while (
            not connection.may_play
            and connection.status.listens
            and (now := self._clock()) < deadline
        ):
            yield self._messages(min(WAIT_S, deadline - now))
        self._handing_over = False

    def _messages(self, timeout_s: float) -> Callable[[], None]:
        """Return the call that waits for messages, at most so long."""
        return partial(self._exchange, timeout_s)

    def _exchange(self, timeout_s: float = 0.0) -> None:
        self._work.waits = float(timeout_s > 0)
        self._connection.exchange(timeout_s)
        self._exchanged_at = self._clock()

    def _closing(self, reason: str, patience_s: float) -> Waits:
        """Offer all that was recorded, leave the run; return whether all was acknowledged."""
        if self._context is not None:
            if (play := self._play) is not None:
                self._leaving += play.rest()
                while self._leaving and self._connection.offer(play.joined, self._leaving[0]):
                    self._leaving.popleft()
            yield partial(self._disconnect, reason, patience_s)
            self._acknowledged &= not self._leaving
        return self._acknowledged

    def _reason(self, error: BaseException | None) -> str:
        """Return the reason of an end; tell the learner of an error."""
        if error is None:
            return CLOSED
        self._connection.problem("ended", repr(error))
        return repr(error)

    def _disconnect(self, reason: str, patience_s: float) -> None:
        assert self._context is not None
        self._acknowledged = self._connection.close(reason, patience_s)
        self._context.term()
        self._context = None
