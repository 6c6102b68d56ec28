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
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from farflung.actor.connection.port import GRACE_S
from farflung.actor.membership import Waits
from farflung.actor.participant import CLOSED, Participant
from farflung.actor.realtime.alone import WithoutLearner
from farflung.actor.worlds.external import NO_INFO
from farflung.common.protocol.outbox import WhenFull

__all__ = ["ActorSession", "AsyncActorSession", "WhenFull", "WithoutLearner"]


class ActorSession(Participant):
    """Seats of a learner's run, in a world that the caller steps.

    It dials the learner and waits until spec and weights are here; after `join_within_s` it
    raises. With `wait=False` it does not wait: until `ready` is true the caller acts without it.
    Later the learner may leave, come back or begin another run: the session goes on acting with the
    newest weights that it has, and joins again by itself.

    Recorded steps leave in windows of the spec's horizon, each played under one version of the
    weights. Between two windows `act` waits

    - for a learner that is up but has no room, so that a fast simulator keeps the learner's pace:
      at most `patience_s` each time, by default without a limit; 0 suits a robot, which cannot
      stand still. While the learner is away it does not wait: windows are kept, up to
      `waiting_bytes`.
    - for a learner that is away, once `waiting_bytes` are full (the default). With
      `when_full=WhenFull.DROP_OLDEST` the oldest window is dropped instead, and counted in the
      ledger.

    With `threaded=True` a thread of its own owns the sockets: `act` and `record` never send, read
    or decode a message. What ends that thread is raised by the next `act`.

    With `rate=50` it has a clock of 50 Hz, see `next_period`. Then nothing waits for the learner: a
    thread owns the sockets, another one prepares newer weights, `patience_s` is 0, and the oldest
    window is dropped when `waiting_bytes` are full, unless these say otherwise.

    While no learner is there, a session with a `rate` acts with its last policy. With
    `without_learner=WithoutLearner.STOP` `next_period` waits until one is back; with a function,
    `act` returns what it returns for the observation. Such a step is counted in `lost_steps`, and
    not recorded.

    With `seats=N` it acts for N robots, each at its own pace: `seat=` says for which one. With
    `evaluate=True` it plays the learner's evaluations instead of collecting, see
    `begin_evaluation`. `keys` is a key file, as `actor --keys` takes it.
    """

    def _open(self) -> None:
        try:
            self._drive(self._joining())
        except BaseException as error:
            self._abandon(error)
            raise

    def act(
        self,
        observation: Any,
        *,
        explore: bool = True,
        info: Mapping[str, Any] = NO_INFO,
        seat: int = 0,
    ) -> Any:
        """Return the action for an observation: an int for a discrete space, else an array.

        Without `explore` it is the greedy action. Observations are arrays as the spec describes
        them, or a dictionary of them; discrete ones and discrete actions count from 0. They are
        copied. `info` holds the extra columns that the learner asks the world for, such as a mask.
        An action without a recorded outcome is left out and counted as lost, and the steps after it
        count as another episode.
        """
        return self._drive(self._acting(observation, explore, info, seat))

    def begin_evaluation(self, patience_s: float = math.inf) -> bool:
        """Wait until the learner wants an evaluation, and begin it, with an episode in every seat.

        Return whether one goes on: else the run is over, or patience. `act` is greedy in it. Play
        until `episodes_left` is 0 for every seat: then the results leave. An episode in which a
        person took an action, or a step was not recorded, has no result and is played again.
        """
        began: bool = self._drive(self._evaluating.begin(patience_s))
        return began

    def next_period(self) -> float:
        """Wait until the next period of `rate` begins; return how many seconds late it did.

        Call it first in each turn of the loop, then look. Periods that have passed as a whole are
        left out; those between the end of an episode and this call are none.
        """
        return self._paced.wait()

    def close(self, patience_s: float = GRACE_S, reason: str = CLOSED) -> bool:
        """Send the rest, wait at most so long for its acknowledgement, and leave the run.

        Return whether everything was acknowledged.
        """
        acknowledged: bool = self._drive(self._closing(reason, patience_s))
        return acknowledged

    def __enter__(self) -> "ActorSession":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close(reason=self._reason(error))

    def _drive(self, waits: Waits) -> Any:
        """Wait as asked, in the thread of the caller; return the result."""
        with closing(waits):
            while True:
                try:
                    wait = next(waits)
                except StopIteration as end:
                    return end.value
                wait()


class AsyncActorSession(Participant):
    """An ActorSession for an event loop, with the same options; `threaded` it is always.

        async with AsyncActorSession("host:5555", patience_s=0.0) as session:
            action = await session.act(observation)
            session.record(reward, terminated, truncated, next_observation)

    `async with` waits for the learner, unless `wait` is false. The sockets belong to a thread of
    their own, all else to the event loop. Each seat may have a task of its own. The policy answers
    on the loop, in the time of one forward pass; `record` never waits. A wait takes no time of the
    loop and can be cancelled: no recorded step is lost by that, and the next `act` goes on with it.
    """

    THREADED = True

    def _open(self) -> None:
        self._turn = asyncio.Lock()  # seats act one after the other: their windows are the same

    async def act(
        self,
        observation: Any,
        *,
        explore: bool = True,
        info: Mapping[str, Any] = NO_INFO,
        seat: int = 0,
    ) -> Any:
        """Return the action for an observation, as `ActorSession.act` does."""
        async with self._turn:
            return await self._drive(self._acting(observation, explore, info, seat))

    async def begin_evaluation(self, patience_s: float = math.inf) -> bool:
        """Wait until the learner wants an evaluation, as `ActorSession.begin_evaluation` does."""
        async with self._turn:
            began: bool = await self._drive(self._evaluating.begin(patience_s))
            return began

    async def next_period(self) -> float:
        """Wait until the next period begins, as `ActorSession.next_period` does."""
        late_s = None
        while late_s is None and not self._opened.closed:
            await _pause(self._paced.left_s())
            late_s = self._paced.begin()
        return late_s or 0.0

    async def close(self, patience_s: float = GRACE_S, reason: str = CLOSED) -> bool:
        """Send the rest, wait at most so long for its acknowledgement, and leave the run.

        Return whether everything was acknowledged.
        """
        acknowledged: bool = await self._drive(self._closing(reason, patience_s))
        return acknowledged

    async def __aenter__(self) -> "AsyncActorSession":
        try:
            await self._drive(self._joining())
        except BaseException as error:
            await asyncio.to_thread(self._abandon, error)
            raise
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self.close(reason=self._reason(error))

    async def _drive(self, waits: Waits) -> Any:
        """Wait as asked, without holding up the event loop; return the result."""
        with closing(waits):
            while True:
                try:
                    wait = next(waits)
                except StopIteration as end:
                    return end.value
                await asyncio.to_thread(wait)


async def _pause(seconds: float) -> None:
    """Let an event loop go on for so long; it begins its other tasks even for none."""
    due = asyncio.Event()
    timer = asyncio.get_running_loop().call_later(seconds, due.set)
    try:
        await due.wait()
    finally:
        timer.cancel()
