"""The sockets of every role: their options stand before they bind or connect, and what cannot be had is said."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
import zmq

from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol.wire import MAX_FEED_MESSAGE_BYTES, MAX_MESSAGE_BYTES

ANYWHERE = Address("127.0.0.1", 0, 0)
PATIENCE_MS = 10_000


@pytest.fixture
def learner(context) -> Iterator[tuple[Address, sockets.Socket, sockets.Socket]]:
    """Where a learner listens, and its two sockets."""
    address, pull, feed = sockets.listen(context, ANYWHERE, 1000)
    with pull, feed:
        yield address, pull, feed


@pytest.mark.parametrize(
    ("size", "messages"), [(0, 1000), (1, 1000), (1 << 20, 256), (16 << 20, 16), (1 << 30, 16)]
)
def test_large_weights_queue_in_small_numbers(size, messages):
    """256 MiB of them, but at least 16 and at most 1000."""
    assert sockets.feed_backlog(size) == messages


def test_nothing_received_is_ever_held_back(learner):
    """Credit bounds what can be on the way; a full queue would block everybody's words."""
    _, pull, _ = learner
    assert (pull.get(zmq.RCVHWM), pull.get(zmq.MAXMSGSIZE)) == (0, MAX_MESSAGE_BYTES)


def test_a_feed_is_bounded(learner):
    """By its messages' size, and what arrives there are subscriptions only."""
    _, _, feed = learner
    assert (feed.get(zmq.SNDHWM), feed.get(zmq.MAXMSGSIZE)) == (1000, 4096)


def test_a_senders_queue_is_bounded(context, learner):
    """And its last words get half a second."""
    with sockets.experience_sender(context, learner[0]) as socket:
        assert (socket.get(zmq.SNDHWM), socket.get(zmq.LINGER)) == (
            sockets.MAX_PUSH_MESSAGES,
            sockets.GOODBYE_MS,
        )


def test_a_subscriber_takes_weights_and_never_loses_a_subscription(context, learner):
    """A gigabyte at most; subscriptions without a bound."""
    with sockets.feed_subscriber(context, learner[0], [b"w/"], backlog=7) as socket:
        assert (socket.get(zmq.SNDHWM), socket.get(zmq.RCVHWM), socket.get(zmq.MAXMSGSIZE)) == (
            0,
            7,
            MAX_FEED_MESSAGE_BYTES,
        )


def test_no_heartbeats_but_keepalive(context, learner):
    """A peer that is merely busy keeps its connection; a host that vanished does not."""
    address, pull, feed = learner
    with (
        sockets.experience_sender(context, address) as push,
        sockets.feed_subscriber(context, address, []) as sub,
    ):
        for socket in (pull, feed, push, sub):
            assert (socket.get(zmq.HEARTBEAT_IVL), socket.get(zmq.TCP_KEEPALIVE)) == (0, 1)


def test_what_is_pushed_is_pulled(context, learner):
    """In order."""
    address, pull, _ = learner
    with sockets.experience_sender(context, address) as push:
        for message in (b"one", b"two"):
            push.send(message)
        assert pull.poll(PATIENCE_MS)
        assert [pull.recv(), pull.recv()] == [b"one", b"two"]


def test_subscriptions_arrive_in_byte_order_and_take_effect_when_granted(context, learner):
    """Whatever order they were made in; before its owner agrees nobody hears anything."""
    address, _, feed = learner
    with sockets.feed_subscriber(context, address, [b"z/1", b"c/", b"w/"]) as sub:
        asked = []
        while len(asked) < 3:
            assert feed.poll(PATIENCE_MS)
            asked.append(feed.recv())
            if asked[-1] == b"\x01w/":
                feed.set(zmq.SUBSCRIBE, b"w/")
        for topic in (b"c/", b"z/1", b"w/"):
            feed.send_multipart((topic, b"said"))
        assert sub.poll(PATIENCE_MS)
        assert sub.recv_multipart() == [b"w/", b"said"]
        assert not sub.poll(0)
    assert asked == [b"\x01c/", b"\x01w/", b"\x01z/1"]


def test_port_0_is_a_pair_of_free_ones(learner):
    """Below those that the kernel gives to who dials out, where a socket could meet itself."""
    address, _, _ = learner
    assert 10_000 <= address.port < 32_000
    assert address.feed_port == address.port + 1


def test_port_0_keeps_a_feed_port_that_was_named(context, learner):
    """Only the other one is free to choose; where it is taken, no pair is found and nothing stays bound."""
    with pytest.raises(ConfigurationError, match="no two free ports"):
        sockets.listen(context, Address("127.0.0.1", 0, learner[0].feed_port), 1)


def test_a_taken_port_is_said(context, learner):
    """With what to do about it."""
    with pytest.raises(
        ConfigurationError, match=r"cannot listen on tcp://127.0.0.1:.*--port takes another"
    ):
        sockets.listen(context, learner[0], 1)


def require_free_soon(address):
    """A closed socket lets go of its port a moment later, in a thread of its own."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        with suppress(ConfigurationError):
            return sockets.require_free(address)
    return sockets.require_free(address)


def test_a_taken_port_is_said_without_taking_it(context, learner):
    """Long before it is needed; free ones stay free, and port 0 is any."""
    taken, *both = learner
    for address in (taken, Address("127.0.0.1", 0, taken.feed_port)):
        with pytest.raises(
            ConfigurationError, match=r"cannot listen on tcp://127.0.0.1:.*--port takes another"
        ):
            sockets.require_free(address)
    for one in both:
        one.close()
    sockets.require_free(Address("127.0.0.1", 0, 0))
    free, *pair = sockets.listen(context, Address("127.0.0.1", 0, 0), 1)
    for one in pair:
        one.close()
    require_free_soon(free)
    for one in sockets.listen_again(context, free, 1):
        one.close()


def test_where_the_feeds_port_is_taken_the_other_is_given_back(context, learner, monkeypatch):
    """Both sockets, or none."""
    made = []
    receiver = sockets.experience_receiver
    monkeypatch.setattr(
        sockets,
        "experience_receiver",
        lambda *arguments: made.append(receiver(*arguments)) or made[-1],
    )
    with pytest.raises(ConfigurationError, match="no two free ports"):
        sockets.listen(context, Address("127.0.0.1", 0, learner[0].feed_port), 1)
    assert made
    assert all(socket.closed for socket in made)


def test_ipv6_addresses_work(context):
    """Where this machine has the loopback of IPv6."""
    try:
        address, *both = sockets.listen(context, Address("::1", 0, 0), 1)
    except ConfigurationError:
        pytest.skip("no IPv6 here")
    with ExitStack() as stack:
        pull, _ = [stack.enter_context(socket) for socket in both]
        push = stack.enter_context(sockets.experience_sender(context, address))
        push.send(b"hello")
        assert pull.poll(PATIENCE_MS)


@pytest.mark.parametrize("which", ["experience", "feed"])
def test_what_speaks_an_older_protocol_or_none_is_turned_away(learner, which):
    """Bytes that the oldest ZeroMQ takes for messages are none here: the connection is closed, and nothing arrives."""
    address, pull, feed = learner
    with socket.create_connection(
        (address.host, address.port if which == "experience" else address.feed_port)
    ) as connection:
        connection.settimeout(PATIENCE_MS / 1000)
        connection.sendall(b"\x01\x00" + b"\x03\x00\x01t/" + b"\x06\x00hello")
        with suppress(ConnectionResetError):
            while connection.recv(100):
                pass
    assert not (pull if which == "experience" else feed).poll(50)
