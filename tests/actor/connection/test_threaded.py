"""A connection that has its sockets in a thread of its own."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.learner_double import LearnerDouble
from support.makers import some_weights
from support.stamps import a_stamp_parcel, a_stamp_spec
from support.waiting import Deadline, eventually

from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.sockets import Sockets
from farflung.actor.connection.threaded import MAILBOX_PARCELS, ThreadedConnection
from farflung.actor.session import ActorSession
from farflung.common.net import sockets
from farflung.common.process.errors import NoLearner
from farflung.common.protocol.outbox import FULL, WhenFull

Serve = Callable[..., Any]


@pytest.fixture
def served(serve: Serve) -> Any:
    """A learner that listens."""
    return serve(LearnerDouble(a_stamp_spec()))


@pytest.fixture
def connect() -> Iterator[Callable[..., ThreadedConnection]]:
    """Return a maker of connections, closed at the end; `wrap` changes their sockets."""
    made: list[ThreadedConnection] = []
    with sockets.context() as context:

        def make(
            address: Any, wrap: Callable[[Any], Any] = lambda it: it, **options: Any
        ) -> ThreadedConnection:
            client = PolicyClient("p", "a", 1, **options)
            made.append(
                ThreadedConnection(
                    client,
                    address,
                    lambda: wrap(Sockets(context, address, client)),
                    time.monotonic,
                )
            )
            return made[-1]

        yield make
        for connection in made:
            connection.close("the test is over", 0.0)


def until(connection: ThreadedConnection, condition: Callable[[], Any]) -> None:
    """Wait for messages until it is so."""
    deadline = Deadline(20.0)
    while not condition():
        assert not deadline.over
        connection.exchange(0.1)


def test_threaded_connection_joins_sends_and_follows(served: Any, connect: Any) -> None:
    """Spec and weights come, parcels leave and are acknowledged, newer weights come."""
    connection = connect(served.address)
    until(connection, lambda: connection.newest.joined)
    joined = connection.newest.joined
    assert joined.spec == served.double.spec
    for stamp in range(3):
        assert connection.offer(joined, a_stamp_parcel(stamp=stamp))
    assert [p.columns["observations"][0, 0] for p in served.take(3)] == [0, 1, 2]
    until(connection, lambda: connection.status.ledger.acknowledged.parcels == 3)
    assert connection.status.idle
    assert connection.may_play
    served.double.endpoint.publish(some_weights(served.double.spec, 2, best=3))
    until(connection, lambda: connection.newest.weights.version.number == 2)
    assert connection.close("over", 5.0)
    assert "connection" not in {thread.name for thread in threading.enumerate()}


def test_threaded_connection_has_a_bounded_mailbox(serve: Serve, connect: Any) -> None:
    """While its thread is held up, so many parcels fit; the next is offered again."""
    served = serve(LearnerDouble(a_stamp_spec()))
    held, free = threading.Event(), threading.Event()

    class Stuck:
        def __init__(self, transport: Any) -> None:
            self.transport = transport

        def exchange(self, timeout_s: float) -> None:
            if held.is_set():
                free.wait(20.0)
            self.transport.exchange(timeout_s)

        def close(self, reason: str, patience_s: float) -> bool:
            return self.transport.close(reason, patience_s)

    connection = connect(served.address, Stuck)
    until(connection, lambda: connection.newest.joined)
    joined = connection.newest.joined
    held.set()
    taken = 0
    while connection.offer(joined, a_stamp_parcel()):
        taken += 1
    assert taken >= MAILBOX_PARCELS
    assert not connection.may_play
    free.set()
    until(connection, lambda: connection.offer(joined, a_stamp_parcel()))


def test_full_mailbox_drops_its_oldest_where_the_outbox_does(serve: Serve, connect: Any) -> None:
    """While the thread is held up, ten parcels more than fit come: the first ten are counted."""
    served = serve(LearnerDouble(a_stamp_spec()))
    held, standing, free = threading.Event(), threading.Event(), threading.Event()

    class Stuck:
        def __init__(self, transport: Any) -> None:
            self.transport = transport

        def exchange(self, timeout_s: float) -> None:
            if held.is_set():
                standing.set()
                free.wait(60.0)
            self.transport.exchange(timeout_s)

        def close(self, reason: str, patience_s: float) -> bool:
            return self.transport.close(reason, patience_s)

    connection = connect(served.address, Stuck, when_full=WhenFull.DROP_OLDEST)
    until(connection, lambda: connection.newest.joined)
    held.set()
    assert standing.wait(60.0)
    for stamp in range(MAILBOX_PARCELS + 10):
        assert connection.offer(connection.newest.joined, a_stamp_parcel(stamp=stamp))
    held.clear()
    free.set()
    until(connection, lambda: connection.status.ledger.acknowledged.parcels == MAILBOX_PARCELS)
    stamps = [p.columns["observations"][0, 0] for p in served.take(MAILBOX_PARCELS)]
    assert stamps == [*range(10, MAILBOX_PARCELS + 10)]
    ledger = connection.status.ledger
    assert (ledger.dropped[FULL].parcels, ledger.dropped[FULL].rows) == (10, 40)
    assert ledger.balanced


def test_threaded_connection_raises_what_ended_its_thread(served: Any, connect: Any) -> None:
    """The owner's next call raises the error itself."""

    class Failing:
        def __init__(self, transport: Any) -> None:
            self.transport = transport

        def exchange(self, timeout_s: float) -> None:
            raise NoLearner("the learner is not understood")

        def close(self, reason: str, patience_s: float) -> bool:
            return self.transport.close(reason, patience_s)

    connection = connect(served.address, Failing)
    with pytest.raises(NoLearner, match="is not understood"):
        until(connection, lambda: False)
    with pytest.raises(NoLearner):
        connection.exchange(0.0)


def test_threaded_connection_tells_the_learner_of_problems(served: Any, connect: Any) -> None:
    """They leave with the next report."""
    connection = connect(served.address)
    until(connection, lambda: connection.newest.joined)
    connection.problem("camera", "it is dark")
    until(connection, lambda: served.double.receiver.problems)
    assert "a: camera: it is dark" in served.double.receiver.problems[0]


def play(session: ActorSession, steps: int) -> None:
    """Take so many steps of one episode."""
    for step in range(steps):
        session.act([0, 0, step])
        session.record(1.0, False, False, [0, 0, step + 1])


def test_threaded_session_never_touches_its_sockets(served: Any) -> None:
    """All that it sends, reads and decodes happens in the thread; what it records arrives."""
    users: set[str] = set()

    class Watched(Sockets):
        def exchange(self, timeout_s: float = 0.0) -> None:
            users.add(threading.current_thread().name)
            super().exchange(timeout_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("farflung.actor.connection.opened.Sockets", Watched)
        session = ActorSession(str(served.address), policy="p", name="a", threaded=True)
        with session:
            play(session, 40)
            assert session.spec.run == "r"
    assert users == {"connection"}
    parcels = served.take(10)
    assert [parcel.columns["observations"][0, 2] for parcel in parcels] == [*range(0, 40, 4)]
    assert session.ledger.balanced
    assert session.ledger.acknowledged.rows == 40
    assert session.close()


def test_threaded_session_raises_what_ended_its_thread(served: Any) -> None:
    """The next action that exchanges messages raises the error itself."""
    with pytest.MonkeyPatch.context() as patch:
        session = ActorSession(str(served.address), policy="p", name="a", threaded=True)
        play(session, 1)
        patch.setattr(Sockets, "exchange", lambda self, timeout_s: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            play(session, 1000)
    session.close(0.0)


def test_threaded_session_closes_in_the_middle_of_a_window_after_its_thread_ended(
    served: Any,
) -> None:
    """There is no thread that could send the rest: nothing is raised, and not all arrived."""
    with pytest.MonkeyPatch.context() as patch:
        session = ActorSession(str(served.address), policy="p", name="a", threaded=True)
        play(session, 1)
        patch.setattr(Sockets, "exchange", lambda self, timeout_s: 1 / 0)
        eventually(lambda: "connection" not in {thread.name for thread in threading.enumerate()})
    assert not session.close(0.0)
