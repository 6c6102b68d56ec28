"""The watch over connections, on real sockets: those beyond the bounds end, the others live."""

import itertools
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest
import zmq
from hostile import curve, known
from hostile.curve import CONTENT, by_hand_with_key
from hostile.known import PART, by_hand
from support.contexts import ANYWHERE, fresh_context
from support.waiting import eventually, readable

from farflung.common.net import intake, keys, pace, sockets
from farflung.common.net.connection_watch import (
    BUSY_S,
    EVENT,
    LOOK_S,
    ConnectionWatch,
    received,
)
from farflung.common.net.listener import Listener
from farflung.common.process import descriptors
from farflung.common.protocol import wire

MOST = 20
MANY = 2000  # parts at most, of a message without an end: a busy machine looks late
CROWD = 5 * MOST
PACKET = 64 << 10  # the largest on loopback
# The largest message of a listener that lets eight parts be unfinished.
FEW = wire.MAX_MESSAGE_BYTES - intake.UNFINISHED + 8 * len(PART)


@pytest.fixture(params=[False, True], ids=["open", "keys"])
def front(request, context, keys_folder, monkeypatch) -> Iterator[Listener]:
    """A listener that may have 20 connections, half of them silent."""
    monkeypatch.setattr(descriptors, "for_connections", lambda: MOST)
    held = keys.server_keys(keys_folder) if request.param else None
    front = Listener(context, ANYWHERE, 1, keys=held)
    front.client = keys.client_keys(keys_folder) if request.param else None
    yield front
    front.close()


def ended(connection: socket.socket) -> bool:
    """Return whether the other side has closed a connection."""
    connection.settimeout(0)
    try:
        while received := connection.recv(4096):  # the greeting
            assert received
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


def test_silent_connections_are_bounded_and_a_client_that_speaks_is_served(front, caplog):
    """The one that spoke before the crowd, and one that comes while the crowd is there."""
    place = front.address.host, front.address.port
    with fresh_context() as context, ExitStack() as stack:
        early = sockets.experience_sender(context, front.address, keys=front.client)
        early.send(b"before")
        assert readable(front.pull)
        before = front.sender(front.pull.recv(copy=False))
        crowd = [stack.enter_context(socket.create_connection(place)) for _ in range(CROWD)]
        watch = front.authenticator.watch
        eventually(lambda: sum(map(ended, crowd)) >= CROWD - MOST // 2)
        late = sockets.experience_sender(context, front.address, keys=front.client)
        late.send(b"meanwhile")
        assert readable(front.pull)
        assert front.sender(front.pull.recv(copy=False)).connection != before.connection
        early.send(b"still")
        assert readable(front.pull)
        assert front.sender(front.pull.recv(copy=False)) == before
        assert sum(map(ended, crowd)) < CROWD
        assert watch.ended["silent"] >= CROWD - MOST // 2
        assert caplog.text.count("never sent a message") == 1


def test_client_with_too_many_connections_loses_its_own(context, keys_folder, monkeypatch, caplog):
    """All of them speak, so their key is known; the connection of another key stays."""
    monkeypatch.setattr(descriptors, "for_connections", lambda: MOST)
    keys.make(keys_folder, "mallory")
    front = Listener(context, ANYWHERE, 1, keys=keys.server_keys(keys_folder))
    with fresh_context() as theirs, ExitStack() as stack:
        stack.callback(front.close)
        robot = sockets.experience_sender(
            theirs, front.address, keys=keys.client_keys(keys_folder / "actor.key")
        )
        robot.send(b"first")
        assert readable(front.pull)
        first = front.sender(front.pull.recv(copy=False))
        mallory = keys.client_keys(keys_folder / "mallory.key")
        crowd = [
            sockets.experience_sender(theirs, front.address, keys=mallory) for _ in range(2 * MOST)
        ]
        for sender in crowd:  # kept: one that is collected has half a second for its handshake
            stack.callback(sender.close, linger=0)
            sender.send(b"me too")
        watch = front.authenticator.watch

        def bounded() -> bool:
            while front.pull.poll(0):
                front.sender(front.pull.recv(copy=False))
            # One that is closed dials again, and is silent then: its message went with the first.
            ended = watch.ended["share"] + watch.ended["silent"]
            return ended >= MOST and watch.ended["share"] > 0 and len(watch.connections) <= MOST

        eventually(bounded)
        robot.send(b"still the same connection")
        heard = set()
        eventually(
            lambda: (
                front.pull.poll(0)
                and not heard.add(front.sender(front.pull.recv(copy=False)).connection)
                and first.connection in heard
            )
        )
        assert "mallory has most connections: its newest are closed" in caplog.text
        assert "actor has most" not in caplog.text


def test_connections_that_ended_are_forgotten(front):
    """So a client that comes and goes never meets a bound."""
    watch = front.authenticator.watch
    with fresh_context() as context:
        for _ in range(MOST + 5):
            push = sockets.experience_sender(context, front.address, keys=front.client)
            push.send(b"hello")
            assert readable(front.pull)
            front.sender(front.pull.recv(copy=False))
            push.close()
            eventually(lambda: not len(watch.connections))
    assert not watch.ended


def test_watch_holds_no_connection_open(front):
    """A peer that libzmq hangs up on sees the end of its connection at once."""
    place = front.address.host, front.address.port
    with socket.create_connection(place) as connection:
        eventually(lambda: len(front.authenticator.watch.connections))
        connection.sendall(b"GET / HTTP/1.1\r\nHost: learner\r\n\r\n" * 4)
        eventually(lambda: ended(connection))


def send_many(send_part):
    """Send as many parts as an attack has."""
    for _ in range(MANY):
        send_part()


def endless(front, stack):
    """Return a function that sends a part of one message, with a key where there are keys."""
    if front.client is None:
        opened = stack.enter_context(by_hand(front.address))
        return lambda: opened.sendall(PART)
    send = stack.enter_context(by_hand_with_key(front.address, front.client))
    return lambda: send(CONTENT)


def test_a_message_without_an_end_ends_its_connection(front, caplog, monkeypatch):
    """Large whole messages of another peer come through meanwhile and after it."""
    front.authenticator.watch.allow(FEW)
    for module in (curve, known):  # a busy machine reads late: that is no end of the connection
        monkeypatch.setattr(module, "SEND_S", 60.0)
    watch, came = front.authenticator.watch, []

    def read():
        """Read as a learner does; return how many messages came."""
        while True:
            try:
                frame = front.pull.recv(zmq.NOBLOCK, copy=False)
                front.sender(frame)
                came.append(len(frame))
            except zmq.Again:
                watch.drained += 1
                return len(came)

    def attack():
        """Send part after part until the connection ends."""
        with suppress(OSError), ExitStack() as stack:
            send_many(endless(front, stack))

    with fresh_context() as theirs, ThreadPoolExecutor() as pool:
        honest = sockets.experience_sender(theirs, front.address, keys=front.client)
        attacker = pool.submit(attack)
        for number in range(MANY):
            honest.send(bytes(1 << 20))
            eventually(lambda: read() > number)  # noqa: B023  # it ends before the next
            if attacker.done():
                break
        eventually(lambda: read() and watch.ended["unfinished"])
        attacker.result()
        honest.send(b"on")
        eventually(lambda: read() and came[-1] == len(b"on"))
    assert watch.ended == {"unfinished": 1}
    assert "sends a message without an end" in caplog.text


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's bound is one of Linux")
def test_a_message_without_an_end_is_bounded_by_bytes_while_the_watch_does_not_look(
    front, monkeypatch
):
    """The kernel takes what may be and drops the rest; another client is served meanwhile."""
    monkeypatch.setattr(ConnectionWatch, "_look", lambda self, now: None)
    front.authenticator.watch.allow(FEW)
    for module in (curve, known):
        monkeypatch.setattr(module, "SEND_S", 5.0)  # for a part
    most = 8 * len(PART) + intake.PAST
    with fresh_context() as theirs, ExitStack() as stack:
        send_part = endless(front, stack)
        with pytest.raises(TimeoutError):
            send_many(send_part)
        watched = front.authenticator.watch.connections
        assert most - len(PART) < max(received(each.descriptor) for each in watched)
        assert max(received(each.descriptor) for each in watched) <= most + PACKET
        honest = sockets.experience_sender(theirs, front.address, keys=front.client)
        honest.send(b"served")
        assert readable(front.pull)
        assert front.pull.recv() == b"served"


def test_a_flood_of_subscriptions_that_are_not_read_ends_its_connection(front, monkeypatch):
    """Its gate need not see a single one of them."""
    monkeypatch.setattr(intake, "TOPICS", 20_000)
    monkeypatch.setattr(intake, "LEAST_TOPICS", 2_000)
    watch = front.authenticator.watch
    with fresh_context() as context:
        flood = sockets.feed_relay(context, front.address, [], keys=front.client)
        for number in range(20_000):
            flood.send(b"\x01c/%060d" % number)

        def is_ended():
            front.feed.get(zmq.EVENTS)  # libzmq takes in what has come
            return watch.ended["topics"]

        eventually(is_ended)


def test_a_crowd_that_dials_again_and_again_waits_and_others_do_not(
    context, keys_folder, monkeypatch
):
    """After its connections to the feed ended while topics stood, a key has to wait in line."""
    monkeypatch.setattr(pace, "WALKED", 10 * pace.LEAST_WALK)
    monkeypatch.setattr(pace, "WALKED_PER_S", 1)  # so that its turn never comes in this test
    keys.make(keys_folder, "mallory")
    front = Listener(context, ANYWHERE, 1, keys=keys.server_keys(keys_folder))
    mallory = keys.client_keys(keys_folder / "mallory.key")
    robot = keys.client_keys(keys_folder / "actor.key")

    numbers = itertools.count()

    def heard(held, listens=readable):
        """Return whether a subscription arrives, under a topic of its own."""
        topic, came = b"c/%d" % next(numbers), False
        with fresh_context() as theirs:
            sockets.feed_subscriber(theirs, front.address, [topic], keys=held)
            while not came and listens(front.feed):
                frame = front.feed.recv(copy=False)
                came = frame.bytes == b"\x01" + topic and bool(front.sender(frame))
        return came

    try:
        assert all(heard(mallory) for _ in range(10))
        eventually(lambda: not heard(mallory, lambda feed: feed.poll(500)), within_s=60.0)
        assert heard(robot)
    finally:
        front.close()


class Events:
    """A monitor's events, in the order of its own socket."""

    def __init__(self, *events):
        self._events = [EVENT.pack(event, value) for event, value in events]

    def get(self, option):
        """Return whether there is one."""
        assert option == zmq.EVENTS
        return zmq.POLLIN if self._events else 0

    def recv_multipart(self, flags):
        """Return the next one."""
        return [self._events.pop(0), b""]

    def close(self):
        """Close nothing."""


@pytest.mark.parametrize("accepted", [True, False], ids=["whole", "end"])
def test_late_events_of_the_other_socket_are_of_an_older_connection(context, accepted):
    """A connection to the feed ended, and one with messages has its descriptor at once.

    The events of the feed are read after that: the watch must not forget the newer connection.
    """
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as stack:
        stack.enter_context(socket.create_connection(server.getsockname()))
        near = stack.enter_context(server.accept()[0])
        number = near.fileno()
        watch = ConnectionWatch(context, MOST)
        stack.callback(watch.close)
        earlier = [(zmq.EVENT_ACCEPTED, number)] if accepted else []
        watch.monitors = [
            Events((zmq.EVENT_ACCEPTED, number)),
            Events(*earlier, (zmq.EVENT_DISCONNECTED, number)),
        ]
        watch.read(0, 0.0)
        found = watch.connections.find(number)
        assert found is not None
        assert found.peer == near.getpeername()
        watch.monitors = [Events((zmq.EVENT_DISCONNECTED, number)), Events()]
        watch.read(0, 0.0)
        assert watch.connections.find(number) is None


def test_bounds_are_raised_often_until_little_came_for_a_while(context, monkeypatch):
    """The next burst may be as fast: of one that met bounds of 50 ms ago, bytes were dropped."""
    brings_much = iter([False, True, False, False, False])
    with ExitStack() as stack:
        watch = ConnectionWatch(context, MOST)
        stack.callback(watch.close)
        monkeypatch.setattr(watch, "_raise", lambda: next(brings_much))
        turns = []
        for now in (0.0, 10.0, 11.0, 11.9, 12.1):
            watch.read(0, now)
            turns.append(watch.turn_s)
    assert turns == [LOOK_S, BUSY_S, BUSY_S, BUSY_S, LOOK_S]
