"""The actor as a library, for simulators and robots that own their loop.

    with ActorSession("host:5555") as session:
        action = session.act(observation)
        session.record(reward, terminated, truncated, next_observation)

The caller passes an observation, receives an action, and records the outcome. Use a session from
one thread only. It exchanges messages while `act` runs; with `threaded=True` a thread of its own
does. On an event loop use `AsyncActorSession`: `async with`, and `await session.act(observation)`.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from farflung.actor.connection.policy_client import WAITING_BYTES
from farflung.actor.connection.port import GRACE_S
from farflung.actor.participant import Participant, Waits
from farflung.actor.worlds.external import NO_INFO
from farflung.common.protocol.outbox import WhenFull

__all__ = ["ActorSession", "AsyncActorSession", "WhenFull"]

CLOSED = "the session was closed"


class ActorSession(Participant):
    """One seat of a learner's run, in a world that the caller steps.

    It dials the learner and waits until spec and weights are here; after `join_within_s` it
    raises. With `wait=False` it does not wait: until `ready` is true the caller acts without it.
    Later the learner may leave, come back or begin another run: the session goes on acting with the
    newest weights that it has, and joins again by itself.

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
        wait: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            address,
            policy=policy,
            name=name,
            keys=keys,
            feed_port=feed_port,
            join_within_s=join_within_s,
            patience_s=patience_s,
            when_full=when_full,
            waiting_bytes=waiting_bytes,
            threaded=threaded,
            clock=clock,
        )
        if not wait:
            return
        try:
            self._drive(self._joining())
        except BaseException as error:
            self._disconnect(str(error), 0.0)
            raise

    @property
    def ready(self) -> bool:
        """True once spec and weights of a run are here. To ask exchanges messages until then."""
        if self._joined is None:
            self._exchange()
            self._take_part(self._connection.newest)
        return self._joined is not None

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
        return self._drive(self._acting(observation, explore, info))

    def close(self, patience_s: float = GRACE_S, reason: str = CLOSED) -> bool:
        """Send the rest, wait at most so long for its acknowledgement, and leave the run.

        Return whether everything was acknowledged.
        """
        if self._context is not None:
            offered = self._leave()
            self._disconnect(reason, patience_s)
            self._acknowledged &= offered
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

    def _drive(self, waits: Waits) -> Any:
        """Wait as asked, in the thread of the caller; return the result."""
        while True:
            try:
                timeout_s = next(waits)
            except StopIteration as end:
                return end.value
            self._exchange(timeout_s)


class AsyncActorSession(Participant):
    """An ActorSession for an event loop, with the same options but for `wait` and `threaded`.

        async with AsyncActorSession("host:5555", patience_s=0.0) as session:
            action = await session.act(observation)
            session.record(reward, terminated, truncated, next_observation)

    `async with` waits for the learner. The sockets belong to a thread of their own, all else to
    the event loop: call it from one task at a time. The policy answers on the loop, in the time of
    one forward pass; `record` never waits. A wait takes no time of the loop and can be cancelled:
    no recorded step is lost by that, and the next `act` goes on with it.
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
        super().__init__(
            address,
            policy=policy,
            name=name,
            keys=keys,
            feed_port=feed_port,
            join_within_s=join_within_s,
            patience_s=patience_s,
            when_full=when_full,
            waiting_bytes=waiting_bytes,
            threaded=True,
            clock=clock,
        )

    @property
    def ready(self) -> bool:
        """True once spec and weights of a run are here."""
        self._connection.exchange(0.0)
        return self._take_part(self._connection.newest)

    async def act(
        self, observation: Any, *, explore: bool = True, info: Mapping[str, Any] = NO_INFO
    ) -> Any:
        """Return the action for an observation, as `ActorSession.act` does."""
        return await self._drive(self._acting(observation, explore, info))

    async def close(self, patience_s: float = GRACE_S, reason: str = CLOSED) -> bool:
        """Send the rest, wait at most so long for its acknowledgement, and leave the run.

        Return whether everything was acknowledged.
        """
        if self._context is not None:
            offered = self._leave()
            await asyncio.to_thread(self._disconnect, reason, patience_s)
            self._acknowledged &= offered
        return self._acknowledged

    async def __aenter__(self) -> "AsyncActorSession":
        try:
            await self._drive(self._joining())
        except BaseException as error:
            await asyncio.to_thread(self._disconnect, str(error), 0.0)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
            return
        self._connection.problem("ended", repr(error))
        await self.close(reason=repr(error))

    async def _drive(self, waits: Waits) -> Any:
        """Wait as asked, without holding up the event loop; return the result."""
        while True:
            try:
                timeout_s = next(waits)
            except StopIteration as end:
                return end.value
            if timeout_s:
                await asyncio.to_thread(self._exchange, timeout_s)
            else:
                self._exchange()
