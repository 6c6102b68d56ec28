"""Sessions at a fixed rate, against a learner's own sockets."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.learner_double import LearnerDouble
from support.makers import some_weights
from support.stamps import a_stamp_spec
from support.waiting import Clock, eventually

from farflung.actor.acting import policy as acting
from farflung.actor.acting.policy import Policy
from farflung.actor.session import ActorSession, AsyncActorSession, WithoutLearner
from farflung.common.data.weights import Weights
from farflung.common.protocol.messages import State
from farflung.common.protocol.outbox import WhenFull

Serve = Callable[..., Any]


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the process of the tests as it is."""
    monkeypatch.setattr("farflung.actor.realtime.pace.keep_pauses_short", lambda: None)


def test_a_session_at_a_rate_prepares_newer_weights_beside_its_steps(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are acted on from the next window on; the report has the figures."""
    prepared: list[tuple[str, int]] = []
    prepare = Policy.prepare

    def noted(self: Policy, weights: Weights) -> None:
        prepare(self, weights)
        prepared.append((threading.current_thread().name, weights.version.number))

    monkeypatch.setattr(Policy, "prepare", noted)
    served = serve(LearnerDouble(a_stamp_spec()))
    with ActorSession(str(served.address), policy="p", rate=500.0) as session:
        for step in range(100_000):
            assert session.next_period() >= 0.0
            session.act([0, 0, step % 50])
            session.record(1.0, step % 50 == 49, False, [0, 0, step % 50 + 1])
            if step == 10:
                served.double.endpoint.publish(some_weights(served.double.spec, 2))
            if session.version.number == 2 and "rate.steps" in session._work.counters:
                break
        assert not session.alone
        assert session.timing["steps"] == step + 1
        assert session._windows._patience_s == 0.0
        assert session._connection._client.outbox.when_full is WhenFull.DROP_OLDEST  # type: ignore
    assert ("beside", 2) in prepared
    assert session.ledger.acknowledged.rows == step + 1
    eventually(
        lambda: "beside" not in {thread.name for thread in threading.enumerate()}, "its end", 20.0
    )


class Robot:
    """A robot in one long episode: it counts its steps, and the actions of each."""

    def __init__(self, session: ActorSession) -> None:
        self.actions: list[int] = []
        self._session = session

    def turn(self, steps: int = 1) -> None:
        """Take steps."""
        for _ in range(steps):
            self._session.next_period()
            step = len(self.actions)
            self.actions.append(self._session.act([0, 0, step]))
            self._session.record(1.0, False, False, [0, 0, step + 1])

    def turn_until(self, condition: Callable[[], bool]) -> None:
        """Take steps until then."""

        def over() -> bool:
            self.turn()
            return condition()

        eventually(over, "a change", 60.0)


def tell(served: Any, state: State) -> None:
    """Let the learner announce a state."""
    served.double.publisher.state = state
    served.double.publisher.hurry()


@pytest.mark.slow
def test_another_run_is_prepared_beside_the_steps(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its graph is checked and its first session is built there; the steps go on meanwhile."""
    built: list[tuple[str, str]] = []
    build, check = acting.session, acting.check

    def noted_session(graph: Any, weights: Weights) -> Any:
        built.append((threading.current_thread().name, weights.run))
        return build(graph, weights)

    def noted_check(graph: Any) -> None:
        built.append((threading.current_thread().name, "a graph"))
        check(graph)

    monkeypatch.setattr(acting, "session", noted_session)
    monkeypatch.setattr(acting, "check", noted_check)
    first = serve(LearnerDouble(a_stamp_spec()))
    with ActorSession(str(first.address), policy="p", rate=200.0) as session:
        robot = Robot(session)
        robot.turn(6)
        first.network_thread.close()
        second = serve(LearnerDouble(a_stamp_spec(run="s", horizon=3), learner_id=9), first.address)
        robot.turn_until(lambda: session.spec.run == "s")
        robot.turn(4)
        assert second.take(1)[0].rows == 3
    assert {thread for thread, _ in built} == {"beside"}
    assert {about for _, about in built} == {"r", "s", "a graph"}


@pytest.mark.slow
def test_without_a_learner_the_callers_function_acts(serve: Serve) -> None:
    """By the actions: 3 is the function's, and 0 the policy's. Only these steps are recorded."""
    served = serve(LearnerDouble(a_stamp_spec()))
    session = ActorSession(
        str(served.address), policy="p", rate=200.0, without_learner=lambda seen: 3
    )
    with session:
        robot = Robot(session)
        robot.turn(6)
        tell(served, State.AWAY)
        robot.turn_until(lambda: robot.actions.count(3) > 10)
        tell(served, State.RUN)
        robot.turn_until(lambda: robot.actions[-6:] == [0] * 6)
    policys = [step for step, action in enumerate(robot.actions) if action == 0]
    parcels = served.take(session.ledger.acknowledged.parcels)
    recorded = []
    for parcel in parcels:
        ends = np.cumsum(parcel.lengths + 1)[:-1]
        for frames in np.split(parcel.columns["observations"], ends):
            assert np.diff(frames[:, 2]).tolist() == [1.0] * (len(frames) - 1)
            recorded += [int(frame[2]) for frame in frames[:-1]]
    assert sorted(recorded) == policys
    assert session.lost_steps == robot.actions.count(3)
    assert session.timing["alone"] >= 10


def test_the_callers_function_acts_before_the_first_learner() -> None:
    """Nothing is recorded, and nothing is lost. A step takes from its action to its outcome."""
    clock = Clock()
    session = ActorSession(
        "127.0.0.1:9",
        rate=500.0,
        wait=False,
        without_learner=lambda seen: ("hold", seen),
        clock=clock,
    )
    for step in range(3):
        clock.wait(60.0)
        session.next_period()
        assert session.act(step) == ("hold", step)
        clock.wait(0.5)
        assert session.record(0.0, step == 2, False, step + 1) == (step == 2)
    assert (session.ready, session.lost_steps, session.ledger.collected.rows) == (False, 0, 0)
    assert session._work.longest_step_s == 0.5
    session.close(0.0)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["thread", "event loop"])
def test_the_next_period_waits_for_a_learner(serve: Serve, form: str) -> None:
    """It is away, and back as soon as periods were counted in which no step began."""
    served = serve(LearnerDouble(a_stamp_spec()))
    options: Any = {"policy": "p", "rate": 200.0, "without_learner": WithoutLearner.STOP}

    def leave(session: Any) -> threading.Thread:
        def come_back() -> None:
            eventually(lambda: session.timing["stopped"] > 2, "stopped periods", 60.0)
            tell(served, State.RUN)

        tell(served, State.AWAY)
        waits = threading.Thread(target=come_back, daemon=True)
        waits.start()
        return waits

    async def loop() -> None:
        async with AsyncActorSession(str(served.address), **options) as session:
            waits = leave(session)
            while waits.is_alive():
                await session.next_period()
            await session.next_period()

    if form == "event loop":
        asyncio.run(loop())
        return
    with ActorSession(str(served.address), **options) as session:
        waits = leave(session)
        while waits.is_alive():
            session.next_period()
        session.next_period()


def test_an_event_loop_keeps_the_rate(serve: Serve) -> None:
    """Other tasks run between two periods."""
    served = serve(LearnerDouble(a_stamp_spec()))

    async def loop() -> float:
        async with AsyncActorSession(str(served.address), policy="p", rate=200.0) as session:
            for step in range(8):
                await session.next_period()
                await session.act([0, 0, step])
                session.record(1.0, False, False, [0, 0, step + 1])
            return session.timing["steps"]

    assert asyncio.run(asyncio.wait_for(loop(), 60.0)) == 8
    assert sum(parcel.rows for parcel in served.take(2)) == 8
