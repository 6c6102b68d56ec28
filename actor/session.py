"""The actor as a library, for simulators and robots that own their loop.

    with ActorSession("host:5555") as session:
        action = session.act(observation)
        session.record(reward, terminated, truncated, next_observation)

The caller passes an observation, receives an action, and records the outcome. Use a session from
one thread only. It exchanges messages while `act` runs; with `threaded=True` a thread of its own
does.
"""

import logging
import math
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from farflung.actor.acting import spec_check
from farflung.actor.connection.inline import InlineConnection
from farflung.actor.connection.policy_client import WAITING_BYTES, PolicyClient
from farflung.actor.connection.port import EXCHANGE_S, GRACE_S, WAIT_S, Connection, Joined
from farflung.actor.connection.sockets import Sockets
from farflung.actor.connection.threaded import ThreadedConnection
from farflung.actor.play import Scores, exploring
from farflung.actor.worlds.external import NO_INFO, ExternalWorld
from farflung.actor.worlds.world import Turn
from farflung.common import heads
from farflung.common.data.fields import default_name
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version, Weights
from farflung.common.net import sockets
from farflung.common.net.address import parse_address
from farflung.common.net.keys import client_keys_for, full_name
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol.ledger import Ledger
from farflung.common.protocol.messages import State
from farflung.common.protocol.outbox import WhenFull

__all__ = ["ActorSession", "WhenFull"]

log = logging.getLogger(__name__)


class ActorSession:
    """One seat of a learner's run, in a world that the caller steps.

    It dials the learner and waits until spec and weights are here; after `join_within_s` it
    raises. Later the learner may leave, come back or begin another run: the session goes on acting
    with the newest weights that it has, and joins again by itself.

    Recorded steps leave in windows of the spec's horizon, each played under one version of the
    weights. Between two windows `act` waits

    - for a learner that is up but has no room, so that a fast simulator keeps the learner's pace:
      at most `patience_s` each time; 0 suits a robot, which cannot stand still. While the learner
      is away it does not wait: windows are kept, up to `waiting_bytes`.
    - for a learner that is away, once `waiting_bytes` are full (the default). With
      `when_full=WhenFull.DROP_OLDEST` the oldest window is dropped instead, and counted in the
      ledger.

    With `threaded=True` a thread of its own owns the sockets: `act` and `record` never send, read
    or decode a message. What ends that thread is raised by the next `act`.

    `keys` is a key file, as `actor --keys` takes it.
    """

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
        threaded: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        where = parse_address(address, feed_port)
        key_pair = client_keys_for(where, keys)
        name = full_name(key_pair, name or default_name(socket.gethostname(), secrets.randbits(24)))
        self._clock, self._patience_s = clock, patience_s
        self._acted_at = self._exchanged_at = clock()
        self._scores = Scores(1)  # an episode may span two runs
        self._weights: Weights | None = None  # of the window
        self._open = False  # a window has begun
        self._acknowledged = False  # all of it, once closed
        client = PolicyClient(
            policy, name, seats=1, when_full=when_full, waiting_bytes=waiting_bytes
        )
        context = sockets.context()
        self._context: sockets.Context | None = context

        def connect() -> Sockets:
            return Sockets(context, where, client, clock, key_pair)

        self._connection: Connection = (
            ThreadedConnection(client, where, connect, clock)
            if threaded
            else InlineConnection(client, connect(), clock)
        )
        self._work = self._connection.work
        try:
            self._change_run(self._join(join_within_s))
        except BaseException as error:
            self._disconnect(str(error), 0.0)
            raise

    @property
    def spec(self) -> Spec:
        """The spec of the learner's run: world, spaces, horizon."""
        return self._joined.spec

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

    def act(
        self, observation: Any, *, explore: bool = True, info: Mapping[str, Any] = NO_INFO
    ) -> Any:
        """Return the action for an observation: an int for a discrete space, else an array.

        Without `explore` it is the greedy action. Observations are arrays as the spec describes
        them, or a dictionary of them; discrete ones and discrete actions count from 0. They are
        copied. `info` holds the extra columns that the learner asks the world for, such as a mask.
        An action without a recorded outcome is left out, and the steps after it count as another
        episode.
        """
        if self._context is None:
            raise ValueError("the session is closed")
        turn = self._see(observation, info)
        if self._open and self._player.full:
            self._hand_over(self._end_window())
        elif self._clock() - self._exchanged_at >= EXCHANGE_S:
            self._exchange()
        newest = self._connection.newest
        if newest.joined not in (None, self._joined):
            self._change_run(newest.joined)
            turn = self._see(observation, info)
        if not self._open:
            weights = newest.weights if newest.joined is self._joined else None
            self._begin_window(weights or self._weights, newest.steps)
        due = turn.due[self.spec.policy]
        action = self._player.act(due, None if explore else self._greedy)[0]
        self._world.acted()
        self._acted_at = self._clock()
        return action.copy() if self.spec.action.shape else int(action)

    def record(
        self,
        reward: float,
        terminated: bool,
        truncated: bool,
        next_observation: Any,
        info: Mapping[str, Any] = NO_INFO,
    ) -> None:
        """Record the outcome of the last action.

        After an ending, the next observation begins another episode. Within an episode, the
        observation of the next `act` counts, should it differ from `next_observation`.
        """
        self._work.longest_step_s = max(self._work.longest_step_s, self._clock() - self._acted_at)
        self._world.record(reward, terminated, truncated, next_observation, info)
        self._work.steps += 1
        self._work.episodes += bool(terminated or truncated)  # no report can hold numpy's own

    def close(self, patience_s: float = GRACE_S, reason: str = "the session was closed") -> bool:
        """Send the rest, wait at most so long for its acknowledgement, and leave the run.

        Return whether everything was acknowledged.
        """
        if self._context is not None:
            turn = self._world.rest()
            if turn is not None:
                self._record(turn)
            rest = self._end_window() if self._open else []
            offered = [self._connection.offer(self._joined, parcel) for parcel in rest]
            self._disconnect(reason, patience_s)
            self._acknowledged &= all(offered)
        return self._acknowledged

    def __enter__(self) -> "ActorSession":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        self._connection.problem("ended", repr(error))
        self.close(reason=repr(error))

    def _join(self, within_s: float) -> Joined:
        """Wait for the learner's snapshot; return our place in its run."""
        log.info("joining the learner at %s", self._connection.address)
        deadline = self._clock() + within_s
        while (joined := self._connection.newest.joined) is None:
            if self._clock() >= deadline:
                raise ConfigurationError(
                    f"no learner answered at {self._connection.address} within {within_s:g} s: "
                    "is one running there?"
                )
            self._connection.exchange(WAIT_S)
        return joined

    def _change_run(self, joined: Joined) -> None:
        """Take part in the run at our address; the window of an earlier run is dropped."""
        spec = joined.spec
        spec_check.require_playable(spec)
        self._joined, self._world = joined, ExternalWorld(spec)
        self._player = exploring(spec, 1, joined.index, joined.start, self._scores)
        self._greedy = heads.find(spec.head).greedy(spec)
        self._open = False
        self._scores.take()

    def _see(self, observation: Any, info: Mapping[str, Any]) -> Turn:
        turn = self._world.see(observation, info)
        self._record(turn)
        return turn

    def _record(self, turn: Turn) -> None:
        policy = self.spec.policy
        self._player.record(turn.outcomes.get(policy), turn.due.get(policy))

    def _begin_window(self, weights: Weights | None, steps: int) -> None:
        assert weights is not None
        self._weights, self._open = weights, True
        self._player.begin(weights, steps)

    def _end_window(self) -> list[Parcel]:
        self._open = False
        return self._player.parcels()

    def _hand_over(self, parcels: list[Parcel]) -> None:
        """Offer a window until there is room, then wait until a learner that listens has room."""
        connection = self._connection
        for parcel in parcels:
            while not connection.offer(self._joined, parcel):
                self._exchange(WAIT_S, waits=True)
        self._exchange()
        deadline = self._clock() + self._patience_s
        while (
            not connection.may_play
            and connection.status.listens
            and (now := self._clock()) < deadline
        ):
            self._exchange(min(WAIT_S, deadline - now), waits=True)

    def _exchange(self, timeout_s: float = 0.0, waits: bool = False) -> None:
        self._work.waits = float(waits)
        self._connection.exchange(timeout_s)
        self._exchanged_at = self._clock()

    def _disconnect(self, reason: str, patience_s: float) -> None:
        assert self._context is not None
        self._acknowledged = self._connection.close(reason, patience_s)
        self._context.term()
        self._context = None
