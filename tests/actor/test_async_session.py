"""A session on an event loop: its waits hold nothing up, and can be cancelled."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest
from support.learner_double import LearnerDouble
from support.stamps import a_stamp_spec

from farflung.actor.session import AsyncActorSession
from farflung.common.process.errors import ConfigurationError

Serve = Callable[..., Any]
WITHIN_S = 40.0


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a test's coroutine on a loop of its own, for a limited time."""

    async def limited() -> Any:
        return await asyncio.wait_for(coroutine, WITHIN_S)

    return asyncio.run(limited())


async def play(session: AsyncActorSession, steps: range) -> None:
    """Take steps of one episode."""
    for step in steps:
        await session.act([0, 0, step])
        session.record(1.0, False, False, [0, 0, step + 1])


def test_an_event_loop_plays_a_session(serve: Serve) -> None:
    """Windows arrive whole; the sockets' thread has ended with the block."""
    served = serve(LearnerDouble(a_stamp_spec()))

    async def loop() -> AsyncActorSession:
        async with AsyncActorSession(str(served.address), policy="p") as session:
            assert session.ready
            await play(session, range(10))
        return session

    session = run(loop())
    parcels = served.take(3)
    assert [parcel.rows for parcel in parcels] == [4, 4, 2]
    assert session.ledger.acknowledged.rows == 10
    assert "connection" not in {thread.name for thread in threading.enumerate()}


async def waits_for_room(session: AsyncActorSession) -> asyncio.Task[Any]:
    """Play until an act waits for the learner's room; return that act."""
    for step in range(1000):
        task = asyncio.ensure_future(session.act([0, 0, step]))
        finished, _ = await asyncio.wait([task], timeout=0.5)
        if not finished:
            return task
        session.record(1.0, False, False, [0, 0, step + 1])
    raise AssertionError("there was always room")


def test_a_wait_holds_the_loop_up_neither_nor_spins(serve: Serve) -> None:
    """Other tasks run meanwhile; the connection is looked at ten times a second, not more."""
    learner = LearnerDouble(a_stamp_spec())
    learner.room = 4
    served = serve(learner)

    async def loop() -> tuple[int, int]:
        async with AsyncActorSession(str(served.address), policy="p") as session:
            act = await waits_for_room(session)
            looks, exchange = [0], session._opened.exchange

            def count(timeout_s: float = 0.0) -> None:
                looks[0] += 1
                exchange(timeout_s)

            session._opened.exchange = count  # type: ignore[method-assign]
            ticks = 0
            for _ in range(50):
                await asyncio.sleep(0.02)
                ticks += 1
            assert not act.done()
            served.queue.room = 1 << 20
            await act
            return ticks, looks[0]

    ticks, looks = run(loop())
    assert ticks == 50
    assert looks < 100  # in a second: an exchange every 5 ms would be 200


@pytest.mark.parametrize("stack", [1, 3])
def test_an_act_can_be_cancelled(serve: Serve, stack: int) -> None:
    """No step is lost, none comes twice, and a stack holds no frame twice."""
    learner = LearnerDouble(a_stamp_spec(stack=stack))
    learner.room = 4
    served = serve(learner)

    async def loop() -> tuple[int, bool]:
        session = AsyncActorSession(str(served.address), policy="p")
        async with session:
            act = await waits_for_room(session)
            begun = session.ledger.collected.rows
            act.cancel()
            with pytest.raises(asyncio.CancelledError):
                await act
            served.queue.room = 1 << 20
            await play(session, range(100, 110))
            return begun, await session.close(20.0)

    begun, acknowledged = run(loop())
    assert acknowledged
    rows, frames = 0, []
    while rows < begun + 10:
        (parcel,) = served.take(1)
        rows += parcel.rows
        for one in parcel.trajectories(learner.spec.columns, stack):
            frames.append(one.columns["observations"][:, 2])
    assert rows == begun + 10
    later = [each for each in frames if each[-1] >= 100]
    assert np.concatenate([each[stack - 1 : -1] for each in later]).tolist() == [*range(100, 110)]
    assert later[0][:stack].tolist() == [100] * stack  # the wait that was given up cuts the stack


def test_a_missing_learner_ends_the_block_before_it_begins() -> None:
    """Nothing stays open."""

    async def loop() -> None:
        async with AsyncActorSession("127.0.0.1:9", join_within_s=0.05):
            raise AssertionError("there is no learner")

    with pytest.raises(ConfigurationError, match="no learner answered"):
        run(loop())
    assert "connection" not in {thread.name for thread in threading.enumerate()}


def test_a_loop_need_not_wait_for_its_learner(serve: Serve) -> None:
    """With `wait=False` the block begins at once; `ready` tells when the policy acts."""
    served = serve(LearnerDouble(a_stamp_spec()))

    async def loop() -> AsyncActorSession:
        async with AsyncActorSession(str(served.address), policy="p", wait=False) as session:
            with pytest.raises(ValueError, match="no learner has answered yet"):
                await session.act([0, 0, 0])
            while not session.ready:
                await asyncio.sleep(0.01)
            await play(session, range(4))
        return session

    assert run(loop()).ledger.acknowledged.rows == 4


def test_sockets_on_the_event_loop_are_refused() -> None:
    """A wait for messages would hold it up."""
    with pytest.raises(ConfigurationError, match="leave threaded=False out"):
        AsyncActorSession("127.0.0.1:9", threaded=False)


def test_an_error_of_the_block_is_told_to_the_learner(serve: Serve) -> None:
    """As that of a session in a thread."""
    served = serve(LearnerDouble(a_stamp_spec()))

    async def loop() -> None:
        async with AsyncActorSession(str(served.address), policy="p", name="a") as session:
            await play(session, range(2))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(loop())
    assert served.take(1)[0].rows == 2
    for _ in range(1000):
        if served.double.receiver.problems:
            break
        served.queue.wait(0.01)
    assert "a: ended: ZeroDivisionError" in served.double.receiver.problems[0]
