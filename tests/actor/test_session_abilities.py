"""Sessions have what worlds have: evaluations, several seats, lost steps, metrics."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from support.learner_double import LearnerDouble
from support.makers import some_weights
from support.stamps import a_stamp_spec
from support.waiting import eventually

from farflung.actor.session import ActorSession, AsyncActorSession
from farflung.common.data.spec import Evaluation, Rounds, metric_column
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol.messages import State

Serve = Callable[..., Any]


def frames(parcels: list[Any]) -> list[list[list[int]]]:
    """Return the observations of each trajectory."""
    return [
        one.columns["observations"].astype(int).tolist()
        for parcel in parcels
        for one in parcel.trajectories(a_stamp_spec().columns, 1)
    ]


class TestSeats:
    """Robots of one program share a session."""

    def test_seats_act_at_their_own_pace(self, serve: Serve) -> None:
        """The learner knows their number; each one's steps stay apart."""
        served = serve(LearnerDouble(a_stamp_spec()))
        with ActorSession(str(served.address), policy="p", name="a", seats=2) as session:
            for step in range(4):
                for seat in (0, 1) if step % 2 else (0,):
                    session.act([seat, 0, step], seat=seat)
                    session.record(1.0, False, False, [seat, 0, step + 1], seat=seat)
        (seen,) = served.double.receiver.seen.values()
        assert seen.seats == 2
        (parcel,) = served.take(1)
        assert frames([parcel]) == [
            [[0, 0, step] for step in range(5)],
            [[1, 0, 1], [1, 0, 3], [1, 0, 4]],
        ]

    def test_a_session_without_a_seat_is_refused(self) -> None:
        """In a sentence."""
        with pytest.raises(ConfigurationError, match="seats=0: a session has at least one"):
            ActorSession("127.0.0.1:9", seats=0)

    def test_each_seat_may_have_a_task_of_its_own(self, serve: Serve) -> None:
        """Acts wait for each other where a window is handed over; nothing is lost or doubled."""
        served = serve(LearnerDouble(a_stamp_spec()))

        async def robot(session: AsyncActorSession, seat: int) -> None:
            for step in range(20):
                await session.act([seat, 0, step], seat=seat)
                await asyncio.sleep(0)
                session.record(1.0, step == 19, False, [seat, 0, step + 1], seat=seat)

        async def loop() -> AsyncActorSession:
            async with AsyncActorSession(str(served.address), policy="p", seats=3) as session:
                await asyncio.gather(*(robot(session, seat) for seat in range(3)))
            return session

        session = asyncio.run(asyncio.wait_for(loop(), 60.0))
        assert session.ledger.acknowledged.rows == 60
        parcels = served.take(session.ledger.acknowledged.parcels)
        steps = sorted(frame for each in frames(parcels) for frame in each[:-1])
        assert steps == [[seat, 0, step] for seat in range(3) for step in range(20)]
        assert sum(len(parcel.results.returns) for parcel in parcels) == 3

    def test_an_outcome_for_a_run_that_is_over_is_dropped(self, serve: Serve) -> None:
        """One seat takes the session into the next run, while another is in the middle of a step.

        It goes on there, and its step across both runs is in neither.
        """
        first = serve(LearnerDouble(a_stamp_spec(horizon=2)))
        session = ActorSession(str(first.address), policy="p", seats=2, patience_s=0.0)
        session.act([1, 0, 0], seat=1)
        first.network_thread.close()
        second = serve(LearnerDouble(a_stamp_spec(run="s"), learner_id=9), first.address)
        step = 0
        while session.spec.run == "r":
            session.act([0, 0, step])
            session.record(1.0, False, False, [0, 0, step + 1])
            step += 1
        session.record(1.0, False, False, [1, 0, 1], seat=1)
        for step in range(4):
            session.act([1, 1, step], seat=1)
            session.record(1.0, False, False, [1, 1, step + 1], seat=1)
        assert session.close(20.0)
        assert [[1, 1, step] for step in range(5)] in frames(second.take(1))


class TestLostSteps:
    """A step that cannot be recorded."""

    def test_the_window_is_cut_there_and_the_step_is_counted(self, serve: Serve) -> None:
        """The learner's screen shows the reason; no transition leads across."""
        served = serve(LearnerDouble(a_stamp_spec()))
        with ActorSession(str(served.address), policy="p", name="a") as session:
            assert not session.lost("there is no step yet")
            for step in range(5):
                session.act([0, 0, step])
                if step == 2:
                    assert session.lost("the camera was covered")
                    with pytest.raises(ValueError, match="call act"):
                        session.record(1.0, False, False, [0, 0, step + 1])
                elif step != 3:  # nothing is said about that one
                    session.record(1.0, step == 4, False, [0, 0, step + 1])
            assert not session.lost("it ended")
            assert (session.lost_steps, session._work.counters["lost_steps"]) == (2, 2)
        parcels = served.take(2)
        assert frames(parcels) == [[[0, 0, 0], [0, 0, 1], [0, 0, 2]], [[0, 0, 4], [0, 0, 5]]]
        problems = served.double.receiver.problems
        eventually(lambda: problems, "the reason", 20.0)
        assert [*problems] == ["a: lost: a step was lost: the camera was covered"]


def test_metrics_of_a_session_travel_with_its_episodes(serve: Serve) -> None:
    """As those of an environment's info do."""
    served = serve(LearnerDouble(a_stamp_spec(extras=(metric_column("force"),))))
    with ActorSession(str(served.address), policy="p") as session:
        with pytest.raises(ConfigurationError, match="start it with --metrics torque"):
            session.metric("torque", 1.0)
        for step in range(4):
            session.act([0, 0, step])
            session.metric("force", step)
            assert session.record(1.0, step % 2 == 1, False, [0, 0, step + 1]) == step % 2
    (parcel,) = served.take(1)
    assert parcel.results.metrics["force"].tolist() == [0.5, 2.5]


class TestEvaluating:
    """A session may play the learner's evaluations instead of collecting."""

    SPEC = a_stamp_spec(evaluation=Evaluation(10, 3, 5))

    def play(self, session: ActorSession) -> None:
        """Play an evaluation; the caller ends its first episode, the others are cut."""
        lengths = iter([2, 9, 9])
        while session.episodes_left():
            length, step, over = next(lengths), 0, False
            while not over:
                assert session.act([0, 0, step]) == 3
                step += 1
                over = session.record(1.0, step == length, False, [0, 0, step])

    def arrived(self, session: ActorSession, served: Any) -> list[Any]:
        """Return the results of an evaluation: they leave while the session looks for the next."""

        def one_came() -> bool:
            return not session.begin_evaluation(0.0) and len(served.queue.parcels) == 1

        eventually(one_came, "the results", 60.0)
        taken: list[Any] = served.take(1)
        return taken

    def test_results_arrive_as_an_evaluators(self, serve: Serve) -> None:
        """The next evaluation is due when the learner has made so many steps."""
        learner = LearnerDouble(self.SPEC, versions=0)
        learner.publisher.publish(some_weights(self.SPEC, 1, best=3))
        served = serve(learner)
        with ActorSession(str(served.address), policy="p", evaluate=True) as session:
            with pytest.raises(ValueError, match="call begin_evaluation"):
                session.act([0, 0, 0])
            assert session.begin_evaluation()
            assert session.begin_evaluation()  # it goes on
            self.play(session)
            (first,) = self.arrived(session, served)
            assert (first.evaluation, first.rows, first.version) == (True, 0, (1, 1))
            assert first.results.returns.tolist() == [2.0, 5.0, 5.0]
            assert not session.begin_evaluation(0.0)
            learner.publisher.publish(some_weights(self.SPEC, 2, best=3, steps=10))
            assert session.begin_evaluation(60.0)
            self.play(session)
            assert session.version == (1, 2)
            assert self.arrived(session, served)[0].version == (1, 2)
            served.network_thread.close(State.STOP)
            assert not session.begin_evaluation()
        (seen,) = learner.receiver.seen.values()
        assert seen.evaluates

    def test_an_event_loop_evaluates(self, serve: Serve) -> None:
        """With seats that have their shares."""
        learner = LearnerDouble(self.SPEC, versions=0)
        learner.publisher.publish(some_weights(self.SPEC, 1, best=3))
        served = serve(learner)

        async def robot(session: AsyncActorSession, seat: int) -> None:
            while session.episodes_left(seat):
                await session.act([seat, 0, 0], seat=seat)
                session.record(1.0, True, False, [seat, 0, 1], seat=seat)

        async def loop() -> None:
            where = str(served.address)
            async with AsyncActorSession(where, policy="p", seats=2, evaluate=True) as session:
                assert await session.begin_evaluation()
                await asyncio.gather(robot(session, 0), robot(session, 1))

        asyncio.run(asyncio.wait_for(loop(), 60.0))
        assert served.take(1)[0].results.returns.tolist() == [1.0] * 3

    def test_a_learner_without_evaluations_is_named(
        self, serve: Serve, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Else the session would wait in silence."""
        served = serve(LearnerDouble(a_stamp_spec(evaluation=Evaluation(0))))
        with ActorSession(str(served.address), policy="p", evaluate=True) as session:
            assert not session.begin_evaluation(0.0)
        assert "start it with --evaluate-every" in caplog.text

    def test_a_session_that_collects_has_none(self, serve: Serve) -> None:
        """The sentence says how to open another one."""
        served = serve(LearnerDouble(self.SPEC))
        with ActorSession(str(served.address), policy="p") as session:
            for use in (session.begin_evaluation, session.episodes_left):
                with pytest.raises(ValueError, match="open one with evaluate=True"):
                    use()


class TestRounds:
    """A learner with rounds gets from a session what it gets from an actor."""

    def test_a_window_waits_for_its_round(self, serve: Serve) -> None:
        """One window under each version; the parcel says that it ends the round."""
        learner = LearnerDouble(a_stamp_spec(rounds=Rounds(1)))
        served = serve(learner)

        async def loop() -> None:
            async with AsyncActorSession(str(served.address), policy="p", patience_s=0) as session:
                for step in range(4):
                    await session.act([0, 0, step])
                    session.record(1.0, False, False, [0, 0, step + 1])
                act = asyncio.ensure_future(session.act([0, 0, 4]))
                assert not (await asyncio.wait([act], timeout=0.5))[0]
                served.double.endpoint.publish(some_weights(learner.spec, 2))
                await act
                assert session.version == (1, 2)

        asyncio.run(asyncio.wait_for(loop(), 60.0))
        (parcel,) = served.take(1)
        assert (parcel.version.number, parcel.rows, parcel.place) == (1, 4, (0, True))

    def test_a_rate_has_no_rounds(self, serve: Serve) -> None:
        """Both are clocks."""
        served = serve(LearnerDouble(a_stamp_spec(rounds=Rounds(1))))
        with pytest.raises(ConfigurationError, match="--mode sync has rounds, and they are"):
            ActorSession(str(served.address), policy="p", rate=50.0)
