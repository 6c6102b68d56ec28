"""The actor as a library, for simulators and robots that own the loop: they show what they see, are told what to do, say what came of it.

    with ActorSession("host:5555") as session:
        action = session.act(observation)
        session.record(reward, terminated, truncated, next_observation)

It starts no thread: it looks after its connection while `act` runs. Use a session from one thread only.
"""

import logging
import math
import secrets
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from farflung.actor.connection.policy_client import WAITING_BYTES, Joined, PolicyClient
from farflung.actor.connection.sockets import GRACE_S, PUMP_S, WAIT_S, Connection
from farflung.actor.external import Seat
from farflung.actor.recording import Scores
from farflung.common.data.names import default_name
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Spec
from farflung.common.data.version import Version
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

    It dials the learner and returns when that has sent spec and weights; within `join_within_s`, or it raises. Later a learner may go,
    come back or begin another run: the session acts on by the last weights that it has, and goes on by itself.

    What is recorded leaves in windows of the spec's horizon, each played under one version of the weights. Between two windows `act` waits

    - for a learner that is there but has no room, so that a fast simulator keeps the learner's pace: at most `patience_s` each time;
      0 for a robot, which cannot stand still. While the learner is away it does not wait: windows are kept, up to `waiting_bytes`.
    - when these are full, until the learner is back (the default); with `when_full=WhenFull.DROP_OLDEST` it never waits for that: the
      oldest window is dropped, and counted in the ledger.

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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        where = parse_address(address, feed_port)
        key_pair = client_keys_for(where, keys)
        name = full_name(key_pair, name or default_name(socket.gethostname(), secrets.randbits(24)))
        self._clock, self._patience_s = clock, patience_s
        self._acted_at = self._pumped_at = clock()
        self._scores = Scores(1)
        self._client = PolicyClient(
            policy, name, seats=1, when_full=when_full, waiting_bytes=waiting_bytes
        )
        self._work = self._client.work
        self._context: sockets.Context | None = sockets.context()
        self._link = Connection(self._context, where, self._client, clock, key_pair)
        try:
            self._joined = self._join(join_within_s)
            self._seat = Seat(self._joined, self._scores)
        except BaseException as error:
            self._disconnect(str(error), 0.0)
            raise

    @property
    def spec(self) -> Spec:
        """What the learner wants: world, spaces, horizon."""
        return self._joined.spec

    @property
    def version(self) -> Version:
        """The weights that it acts on."""
        return self._seat.version

    @property
    def ledger(self) -> Ledger:
        """What became of everything that was recorded and has left its window."""
        return self._client.outbox.ledger

    @property
    def over(self) -> bool:
        """Whether the learner has ended its run. Whoever goes on acting takes part in the next one at this address."""
        return self._client.state is State.STOP

    def act(self, observation: Any, *, explore: bool = True) -> Any:
        """What to do about what is seen now: an int for a discrete space, else an array; without `explore`, what the policy likes best.

        Observations are arrays as the spec has them, or a dictionary of them; discrete ones and discrete actions count from 0. They are
        copied. An action whose outcome is never recorded is left out, and what follows counts as another episode.
        """
        if self._context is None:
            raise ValueError("the session is closed")
        parcel = self._seat.see(observation)
        if parcel is not None:
            self._hand_over(parcel)
        elif self._clock() - self._pumped_at >= PUMP_S:
            self._pump()
        ready = self._client.ready
        if ready is not None and ready is not self._joined:
            self._change_run(ready)
            self._seat.see(observation)
        weights = self._client.weights if self._client.joined is self._joined else None
        action = self._seat.choose(weights, self._client.steps, explore)
        self._acted_at = self._clock()
        return action

    def record(
        self, reward: float, terminated: bool, truncated: bool, next_observation: Any
    ) -> None:
        """What came of the last action. After an ending, what is seen next is the beginning of another episode.

        Within an episode what counts as the outcome is what the next `act` is shown, should it differ from `next_observation`.
        """
        self._work.longest_step_s = max(self._work.longest_step_s, self._clock() - self._acted_at)
        self._seat.record(reward, terminated, truncated, next_observation)
        self._work.steps += 1
        self._work.episodes += bool(
            terminated or truncated
        )  # numpy's own would make it a number that no report can hold

    def close(self, patience_s: float = GRACE_S, reason: str = "the session was closed") -> bool:
        """Send what was recorded, wait at most so long for its acknowledgement, and say goodbye. Gives whether all was acknowledged."""
        if self._context is not None:
            parcel = self._seat.rest()
            if parcel is not None and self._goes_out(parcel):
                self._client.offer(parcel)
            self._disconnect(reason, patience_s)
        return self._client.outbox.idle

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
        self._client.problem("ended", repr(error))
        self.close(reason=repr(error))

    def _join(self, within_s: float) -> Joined:
        """The snapshot of the run at our address."""
        log.info("joining the learner at %s", self._link.address)
        deadline = self._clock() + within_s
        while (joined := self._client.ready) is None:
            if self._clock() >= deadline:
                raise ConfigurationError(
                    f"no learner answered at {self._link.address} within {within_s:g} s: is one running there?"
                )
            self._link.pump(WAIT_S)
        return joined

    def _change_run(self, joined: Joined) -> None:
        """Take part in the run that is at our address now. What was played for the one before ends here."""
        self._joined, self._seat = joined, Seat(joined, self._scores)
        self._scores.take()

    def _hand_over(self, parcel: Parcel) -> None:
        """Into the outbox, where it waits for room; and wait for the learner to take it, if that is there at all."""
        outbox = self._client.outbox
        while self._goes_out(parcel):
            if self._client.offer(parcel):
                break
            self._pump(WAIT_S, waits=True)
        self._pump()
        deadline = self._clock() + self._patience_s
        while (
            outbox.ledger.waiting.parcels
            and self._client.listens(now := self._clock())
            and now < deadline
        ):
            self._pump(min(WAIT_S, deadline - now), waits=True)

    def _goes_out(self, parcel: Parcel) -> bool:
        """Whether the learner wants it: it has rows, and its run is not over."""
        return bool(parcel.rows) and self._client.joined is self._joined

    def _pump(self, timeout_s: float = 0.0, waits: bool = False) -> None:
        self._work.waits = float(waits)
        self._link.pump(timeout_s)
        self._pumped_at = self._clock()

    def _disconnect(self, reason: str, patience_s: float) -> None:
        assert self._context is not None
        self._link.close(reason, patience_s)
        self._context.term()
        self._context = None
