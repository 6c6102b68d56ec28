"""The network thread on real sockets.

What is asked is answered, what is sent arrives, and it ends when it is told to.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import zmq
from support.contexts import fresh_context
from support.learner_double import LearnerDouble
from support.makers import a_frame, a_spec, some_weights
from support.waiting import PATIENCE_S, Deadline, eventually, readable

from farflung.common.data.spec import Graph, Tensor
from farflung.common.data.weights import Version
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol import tensors, topics, wire
from farflung.common.protocol.messages import Acknowledgement, Beacon, State, Telemetry
from farflung.learner.storage.journal import segments
from farflung.learner.storage.journal.disk import Disk, DiskFailure
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.record import Kind, Record
from farflung.learner.storage.journal.totals import JournalTotals
from farflung.learner.transport import network_thread
from farflung.learner.transport.network_thread import NetworkThread

A = topics.acknowledgement("default", "box-1", 7)
C, W, T = topics.beacon("default"), topics.weights("default"), topics.telemetry("default")


@pytest.fixture
def side():
    """A gate and a herald."""
    return LearnerDouble(learner_id=5, versions=0)


@pytest.fixture
def queue(side):
    """With room for 1000 rows."""
    side.endpoint.queue.room = 1000
    return side.endpoint.queue


@pytest.fixture
def link(context, side, queue) -> Iterator[NetworkThread]:
    """A running link on free ports."""
    link = NetworkThread(context, Address("127.0.0.1", 0, 0), side.endpoint)
    link.start()
    yield link
    link.close()


@pytest.fixture
def feed(context, link) -> Iterator[Callable[..., sockets.Socket]]:
    """Subscribes to the running link."""
    with ExitStack() as stack:
        yield lambda *wanted: stack.enter_context(
            sockets.feed_subscriber(context, link.address, sorted(wanted))
        )


@pytest.fixture
def push(context, link) -> Iterator[sockets.Socket]:
    """Sends to the running link."""
    with sockets.experience_sender(context, link.address) as socket:
        yield socket


def heard(socket, topic):
    """The next frame on a topic, within patience."""
    deadline = Deadline(PATIENCE_S)
    while not deadline.over and readable(socket):
        found, frame = socket.recv_multipart()
        if found == topic:
            return frame
    raise AssertionError(f"nothing on {topic!r}")


def beacons(socket):
    """Beacons as they come."""
    while True:
        message = wire.read(wire.open_frame(heard(socket, C)))
        assert isinstance(message, Beacon)
        yield message


def acknowledgements(socket):
    """Yield the acknowledgements of the one actor here as they come."""
    while True:
        message = wire.read(wire.open_frame(heard(socket, A)))
        assert isinstance(message, Acknowledgement)
        yield message


def test_port_0_is_any_pair_of_free_ports(link):
    """The link says where it really listens, outside the range of those who dial out."""
    assert 10_000 <= link.address.port < 32_000
    assert link.address.feed_port == link.address.port + 1


def test_a_taken_port_is_refused_in_a_sentence(link, side, queue):
    """Two learners at one address would split the actors between them."""
    with (
        fresh_context() as context,
        pytest.raises(ConfigurationError, match=r"cannot listen on .*--port takes another"),
    ):
        NetworkThread(context, link.address, side.endpoint)


def test_a_late_joiner_gets_the_newest_weights_at_once(link, feed, side):
    """Over real sockets.

    Published before an actor was there, and brought by the subscription itself.
    """
    for number in (1, 2):
        side.endpoint.publish(some_weights(side.spec, number))
    assert eventually(lambda: side.publisher.newest == Version(1, 2))
    private = topics.snapshot("default", "box-1", 7, 1)
    socket = feed(W, C, private)
    announcement = wire.read(wire.open_frame(heard(socket, private)))
    weights = tensors.read_weights(wire.open_frame(heard(socket, private)), side.spec.graph.weights)
    assert (announcement.spec, announcement.index, announcement.start) == (side.spec, 0, 0)
    assert weights.version == Version(1, 2)


@pytest.mark.parametrize("topic", [b"", b"z/"])
def test_who_wants_everything_gets_nothing(link, feed, side, monkeypatch, topic):
    """Such a subscription would carry the snapshots of all.

    It is not granted, while an honest one beside it is.
    """
    asked = []
    subscribed = side.publisher.subscribed
    monkeypatch.setattr(
        side.publisher,
        "subscribed",
        lambda wanted, sender: subscribed(wanted, sender) or asked.append(wanted),
    )
    greedy, honest = feed(topic), feed(C, T)
    heard(honest, C)
    assert eventually(lambda: asked == [topic])
    side.endpoint.publish_status("{}")
    heard(honest, T)
    assert not greedy.poll(0)


def test_a_parcel_arrives_and_is_acknowledged(link, feed, push, side, queue):
    """From the socket through the receiver into the queue, and back on the actor's own topic."""
    socket = feed(A)
    other = feed(topics.acknowledgement("default", "box-1", 8))
    assert eventually(lambda: side.publisher.newest)
    push.send(a_frame(side.spec))
    found = next(one for one in acknowledgements(socket) if one.highest)
    assert (found.actor, found.incarnation, found.highest) == ("box-1", 7, 1)
    assert (found.run, found.learner_id, found.epoch) == ("run-1", 5, 1)
    assert not other.poll(0)
    assert queue.parcels.take(1)[0].content.rows == 3


def test_a_busy_round_is_over_in_time(context, side, queue, monkeypatch):
    """Messages that a busy machine reads slowly do not hold up what is due: the rest comes next."""
    monkeypatch.setattr(network_thread, "READ_S", 0.0)
    link = NetworkThread(context, Address("127.0.0.1", 0, 0), side.endpoint)
    try:
        with sockets.experience_sender(context, link.address) as push:
            for number in range(1, 4):
                push.send(a_frame(side.spec, sequence=number))
            assert eventually(lambda: link._pull.poll(0))
            counts = []
            assert eventually(
                lambda: counts.append(link._round(time.monotonic())) or sum(counts) == 3
            )
            assert max(counts) == 1
    finally:
        link.close()


def test_odd_messages_are_counted_and_shown(link, push):
    """A message of several parts and random bytes are refused; the thread lives on."""
    push.send(b"nonsense")
    push.send_multipart([b"one", b"two"])
    assert eventually(lambda: dict(link.status.refused) == {"truncated": 2})
    assert link.status.received == 2
    link.check()


def test_a_beacon_carries_what_training_last_said(feed, side):
    """Steps and updates."""
    side.endpoint.progress(640, 80, 0)
    assert next(beacon for beacon in beacons(feed(C)) if beacon.steps).updates == 80


def test_figures_reach_watchers(feed, side):
    """The newest document is sent to who subscribed."""
    socket = feed(C, T)
    heard(socket, C)
    side.endpoint.publish_status('{"steps":2}')
    message = wire.read(wire.open_frame(heard(socket, T)))
    assert isinstance(message, Telemetry)
    assert message.document == '{"steps":2}'


def test_weights_larger_than_a_copy_go_out_whole(context, queue):
    """From 64 KiB on a frame is sent without a copy; it arrives as it was."""
    graph = Graph(b"model", (), (), (Tensor("matrix", "float32", (200, 200)),))
    side = LearnerDouble(a_spec(graph=graph), versions=0)
    link = NetworkThread(context, Address("127.0.0.1", 0, 0), side.endpoint)
    link.start()
    try:
        with sockets.feed_subscriber(context, link.address, [C, W]) as socket:
            heard(socket, C)
            side.endpoint.publish(some_weights(side.spec, value=3.0))
            weights = tensors.read_weights(wire.open_frame(heard(socket, W)), graph.weights)
            assert (weights.arrays["matrix"] == 3.0).all()
    finally:
        link.close()


@pytest.mark.parametrize(("said", "heard_as"), [((), State.AWAY), ((State.STOP,), State.STOP)])
def test_the_last_word_says_whether_the_run_is_over(link, feed, said, heard_as):
    """Closing says to all who listen in what state the learner leaves.

    Away, unless it knows that the run is over.
    """
    socket = feed(C)
    heard(socket, C)
    link.close(*said)
    assert (
        next(beacon for beacon in beacons(socket) if beacon.state is not State.RUN).state
        is heard_as
    )


def test_weights_published_last_still_go_out(link, feed, side):
    """A message that was published just before the end reaches those who listen."""
    socket = feed(C, W)
    heard(socket, C)
    side.endpoint.publish(some_weights(side.spec, number=9))
    link.close()
    assert (
        tensors.read_weights(
            wire.open_frame(heard(socket, W)), side.spec.graph.weights
        ).version.number
        == 9
    )


def test_a_link_that_never_started_can_be_closed(context, side, queue):
    """An error between making and starting leaves no socket behind.

    The context could not end else.
    """
    NetworkThread(context, Address("127.0.0.1", 0, 0), side.endpoint).close()
    context.term()


class Flood:
    """A feed on which subscriptions never end."""

    def __init__(self) -> None:
        self.heard = self.said = 0

    def get(self, option: int) -> int:
        return zmq.POLLIN

    def recv(self, flags: int, *, copy: bool) -> zmq.Frame:
        self.heard += 1
        return zmq.Frame(b"\x01" + C)

    def set(self, option: int, value: bytes) -> None:
        """A subscription is granted."""

    def send_multipart(self, *message: object, **options: object) -> None:
        self.said += 1


def test_a_flood_of_subscriptions_holds_nothing_up(context, side, queue, monkeypatch):
    """A round takes a bounded number of them, then the experience, and says what is due."""
    link = NetworkThread(context, Address("127.0.0.1", 0, 0), side.endpoint)
    feed = link._feed
    link._feed = link._listener.feed = flood = Flood()
    try:
        link._round(0.0)
    finally:
        link._feed = link._listener.feed = feed
        link.close()
    assert flood.heard == 1024
    assert flood.said >= 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_in_the_thread_reaches_training(link, side, monkeypatch, caplog):
    """A thread that ended without notice would look like a quiet network."""

    def fail(*arguments: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(side.publisher, "due", fail)
    assert eventually(lambda: not link._thread.is_alive())
    with pytest.raises(RuntimeError, match="network thread ended") as raised:
        link.check()
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert "the network thread ended" in caplog.text


def test_an_idle_link_naps(context, side, queue, monkeypatch):
    """Nothing to hear and nothing to say.

    It looks at its sockets some fifty times a second, not all the time.
    """
    rounds = []
    due = side.publisher.due
    monkeypatch.setattr(
        side.publisher, "due", lambda outlook, now: rounds.append(now) or due(outlook, now)
    )
    link = NetworkThread(context, Address("127.0.0.1", 0, 0), side.endpoint)
    link.start()
    assert eventually(lambda: len(rounds) >= 6)
    link.close()
    assert rounds[5] - rounds[0] >= 0.08


@pytest.fixture
def drowsy(monkeypatch):
    """Polls and naps last for hours unless something ends them."""
    for name in ("POLL_MS", "ALONE_MS", "SOON_MS"):
        monkeypatch.setattr(network_thread, name, 10_000_000)
    monkeypatch.setattr(network_thread, "NAP_S", 10_000.0)


def test_publication_does_not_wait_for_the_end_of_a_poll(drowsy, link, feed, side):
    """It ends the poll: without that, weights were up to 100 ms late."""
    socket = feed(C, W)
    heard(socket, C)
    for number in (1, 2):
        side.endpoint.publish(some_weights(side.spec, number))
        weights = tensors.read_weights(wire.open_frame(heard(socket, W)), side.spec.graph.weights)
        assert weights.version.number == number


def test_pause_does_not_wait_for_the_end_of_a_poll(drowsy, link, feed, side):
    """A beacon with the new state leaves at once, and so does the next one."""
    found = beacons(feed(C))
    assert next(found).state is State.RUN
    side.endpoint.pause(True)
    assert next(found).state is State.PAUSE
    side.endpoint.pause(False)
    assert next(found).state is State.RUN


def test_publication_ends_the_nap_after_a_burst(drowsy, link, feed, push, side):
    """The thread naps once it has received something, and weights do not wait for that."""
    socket = feed(C, W)
    heard(socket, C)
    push.send(a_frame(side.spec))
    assert eventually(lambda: side.endpoint.queue.parcels)
    side.endpoint.publish(some_weights(side.spec, 1))
    heard(socket, W)


@pytest.fixture
def journal(tmp_path, queue) -> Iterator[Journal]:
    """On a disk of its own, feeding the inlet."""
    journal = Journal(tmp_path, JournalTotals("run-1"), 1, queue.put, durable=True)
    yield journal
    journal.close()


@pytest.fixture
def keeping(context, side, queue, journal) -> Iterator[NetworkThread]:
    """A running link with a journal."""
    link = NetworkThread(context, Address("127.0.0.1", 0, 0), side.endpoint)
    side.endpoint.log = journal
    link.start()
    yield link
    link.close()


def kept(tmp_path, kind):
    return [
        bytes(found.payload)
        for _, found in segments.read(tmp_path / segments.FOLDER)
        if isinstance(found, Record) and found.kind is kind
    ]


def test_with_a_journal_a_parcel_is_on_disk_before_its_line_says_so(
    context, keeping, side, queue, tmp_path
):
    """Taken and refused numbers alike; the parcel reaches the inlet with its place."""
    frame, odd = (
        a_frame(side.spec),
        a_frame(side.spec, sequence=2, schema="0" * 16),
    )
    with (
        sockets.feed_subscriber(context, keeping.address, [A]) as feed,
        sockets.experience_sender(context, keeping.address) as push,
    ):
        told = acknowledgements(feed)
        push.send(frame)
        assert next(one for one in told if one.highest == 1 and one.credit.messages)
        push.send(odd)
        found = next(one for one in told if one.highest == 2)
    assert found.refused == ((2, "schema"),)
    assert kept(tmp_path, Kind.MESSAGE) == [frame]
    assert len(kept(tmp_path, Kind.REFUSAL)) == 1
    assert [(item.content.rows, item.end.segment) for item in queue.parcels.take(1)] == [(3, 1)]


def test_until_the_disk_has_it_nothing_is_acknowledged(
    keeping, context, side, journal, monkeypatch
):
    """While a sync lasts, acknowledgements go on without the number; it counts against the room."""
    go = threading.Event()
    sync = Disk.sync
    monkeypatch.setattr(
        Disk, "sync", lambda disk, descriptor: (go.wait(60), sync(disk, descriptor))
    )
    with (
        sockets.feed_subscriber(context, keeping.address, [A]) as feed,
        sockets.experience_sender(context, keeping.address) as push,
    ):
        push.send(a_frame(side.spec))
        assert eventually(lambda: journal.waiting_rows == 3)
        found = acknowledgements(feed)
        assert [next(found).highest, next(found).highest] == [0, 0]
        go.set()
        assert next(one.highest for one in found if one.highest) == 1


def test_the_end_is_told_after_everything_that_was_taken_is_acknowledged(
    keeping, context, side, journal, monkeypatch
):
    """A disk that is slow at the end: no beacon says stop before the last acknowledgement."""
    go = threading.Event()
    sync = Disk.sync
    monkeypatch.setattr(
        Disk, "sync", lambda disk, descriptor: (go.wait(60), sync(disk, descriptor))
    )
    threading.Timer(0.3, go.set).start()
    with (
        sockets.feed_subscriber(context, keeping.address, [A, C]) as feed,
        sockets.experience_sender(context, keeping.address) as push,
    ):
        push.send(a_frame(side.spec))
        assert eventually(lambda: journal.waiting_rows == 3)
        keeping.close(State.STOP)
        heard = [
            wire.read(wire.open_frame(frame)) for _, frame in iter(lambda: received(feed), None)
        ]
    taken = [isinstance(one, Acknowledgement) and one.highest == 1 for one in heard]
    stopped = [isinstance(one, Beacon) and one.state is State.STOP for one in heard]
    assert taken.index(True) < stopped.index(True)


def received(feed):
    """Return the next message of a feed, or None after half a second without one."""
    return feed.recv_multipart() if feed.poll(500) else None


def test_a_problem_of_the_journal_is_on_the_screen_and_its_end_ends_training(
    keeping, journal, monkeypatch, side
):
    """The view names it; `check` raises it. Published versions leave a mark."""
    journal.problem = "no room"
    assert eventually(lambda: "no room" in keeping.status.problems)
    side.endpoint.publish(some_weights(side.spec))
    assert journal.drain(10)
    journal._failure = OSError("broken")
    with pytest.raises(DiskFailure, match="cannot be written: broken"):
        keeping.check()
