"""The sockets of every role: their options, and a sentence for ports that are taken."""

import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
import zmq
from support.contexts import ANYWHERE
from support.waiting import eventually, readable

from farflung.common.net import ceiling, sockets
from farflung.common.net.address import Address
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol.wire import MAX_FEED_MESSAGE_BYTES, MAX_MESSAGE_BYTES

PATIENCE_S = 60.0


@pytest.fixture
def learner(context) -> Iterator[tuple[Address, sockets.Socket, sockets.Socket]]:
    """A learner's address and its two sockets."""
    address, pull, feed = sockets.listen(context, ANYWHERE, 1000)
    with pull, feed:
        yield address, pull, feed


@pytest.mark.parametrize(
    ("size", "messages"), [(0, 1000), (1, 1000), (1 << 20, 256), (16 << 20, 16), (1 << 30, 16)]
)
def test_large_weights_queue_in_small_numbers(size, messages):
    """256 MiB of them, but at least 16 and at most 1000."""
    assert sockets.feed_backlog(size) == messages


def test_experience_receiver_bounds_the_messages_of_a_connection(learner):
    """Credit bounds those of an honest actor; a frame of two bytes takes far more in libzmq."""
    _, pull, _ = learner
    assert (pull.get(zmq.RCVHWM), pull.get(zmq.MAXMSGSIZE)) == (4096, MAX_MESSAGE_BYTES)


def test_experience_receiver_takes_messages_as_large_as_it_is_told(context):
    """Gradients are as large as the weights."""
    with sockets.experience_receiver(context, ANYWHERE, largest=100 << 20) as pull:
        assert pull.get(zmq.MAXMSGSIZE) == 100 << 20


def test_feed_publisher_queue_is_bounded(learner):
    """By its messages' size. What arrives there are subscriptions only: short, and few unread."""
    _, _, feed = learner
    assert (feed.get(zmq.SNDHWM), feed.get(zmq.MAXMSGSIZE)) == (1000, 512)
    assert (feed.get(zmq.RCVHWM), feed.get(zmq.RCVBUF)) == (16, 16 << 10)


@pytest.mark.skipif(sys.platform != "linux", reason="only there a short window can stall a sender")
def test_segments_to_a_feed_fit_into_its_window(context):
    """Loopback's would have 64 KiB, more than the window of 16 KiB that a feed's sockets have."""
    address, pull, feed = sockets.listen(context, ANYWHERE, 1)
    with pull, feed, socket.create_connection((address.host, address.feed_port)) as dialled:
        segment = dialled.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        assert segment <= ceiling.SEGMENT_BYTES
    assert 4 * ceiling.SEGMENT_BYTES <= sockets.SUBSCRIPTION_BYTES


def test_experience_sender_queue_is_bounded(context, learner):
    """And its last words get half a second."""
    with sockets.experience_sender(context, learner[0]) as socket:
        assert (socket.get(zmq.SNDHWM), socket.get(zmq.LINGER)) == (
            sockets.MAX_PUSH_MESSAGES,
            sockets.GOODBYE_MS,
        )


def test_feed_subscriber_takes_large_weights_and_any_number_of_subscriptions(context, learner):
    """A gigabyte at most; subscriptions without a bound."""
    with sockets.feed_subscriber(context, learner[0], [b"w/"], backlog=7) as socket:
        assert (socket.get(zmq.SNDHWM), socket.get(zmq.RCVHWM), socket.get(zmq.MAXMSGSIZE)) == (
            0,
            7,
            MAX_FEED_MESSAGE_BYTES,
        )


def test_connections_have_keepalive_and_no_heartbeats(context, learner):
    """A peer that is merely busy keeps its connection; a host that vanished does not."""
    address, pull, feed = learner
    with (
        sockets.experience_sender(context, address) as push,
        sockets.feed_subscriber(context, address, []) as sub,
    ):
        for socket in (pull, feed, push, sub):
            assert (socket.get(zmq.HEARTBEAT_IVL), socket.get(zmq.TCP_KEEPALIVE)) == (0, 1)


def test_experience_arrives_in_order(context, learner):
    """In order."""
    address, pull, _ = learner
    with sockets.experience_sender(context, address) as push:
        for message in (b"one", b"two"):
            push.send(message)
        assert readable(pull)
        assert [pull.recv(), pull.recv()] == [b"one", b"two"]


def test_subscriptions_arrive_in_byte_order_and_need_a_grant(context, learner):
    """In any order of subscribing; before the grant no message passes."""
    address, _, feed = learner
    with sockets.feed_subscriber(context, address, [b"z/1", b"c/", b"w/"]) as sub:
        asked = []
        while len(asked) < 3:
            assert readable(feed)
            asked.append(feed.recv())
            if asked[-1] == b"\x01w/":
                feed.set(zmq.SUBSCRIBE, b"w/")
        for topic in (b"c/", b"z/1", b"w/"):
            feed.send_multipart((topic, b"said"))
        assert readable(sub)
        assert sub.recv_multipart() == [b"w/", b"said"]
        assert not sub.poll(0)
    assert asked == [b"\x01c/", b"\x01w/", b"\x01z/1"]


def test_port_0_is_a_free_pair_of_ports(learner):
    """Below the range of outgoing connections, in which a socket could meet itself."""
    address, _, _ = learner
    assert 10_000 <= address.port < 32_000
    assert address.feed_port == address.port + 1


def test_port_0_keeps_a_named_feed_port(context, learner):
    """If it is taken, no pair is found and nothing stays bound."""
    with pytest.raises(ConfigurationError, match="no two free ports"):
        sockets.listen(context, Address("127.0.0.1", 0, learner[0].feed_port), 1)


def test_taken_port_is_named_with_a_cure(context, learner):
    """With what to do about it."""
    with pytest.raises(
        ConfigurationError, match=r"cannot listen on tcp://127.0.0.1:.*--port takes another"
    ):
        sockets.listen(context, learner[0], 1)


def require_free_soon(address):
    """Wait until a port is free: libzmq closes it a moment later, in its own thread."""

    def free():
        with suppress(ConfigurationError):
            sockets.require_free(address)
            return True

    eventually(free, "a free port")


def test_taken_port_is_named_before_it_is_needed(context, learner):
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


def test_listen_releases_the_first_port_if_the_second_is_taken(context, learner, monkeypatch):
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


def test_sockets_connect_over_ipv6(context):
    """Skipped on a machine without the IPv6 loopback."""
    try:
        address, *both = sockets.listen(context, Address("::1", 0, 0), 1)
    except ConfigurationError:
        pytest.skip("no IPv6 here")
    with ExitStack() as stack:
        pull, _ = [stack.enter_context(socket) for socket in both]
        push = stack.enter_context(sockets.experience_sender(context, address))
        push.send(b"hello")
        assert readable(pull)


@pytest.mark.parametrize("which", ["experience", "feed"])
def test_peer_with_an_older_protocol_or_none_is_disconnected(learner, which):
    """Bytes that ZMTP 1.0 reads as messages are none here: nothing arrives."""
    address, pull, feed = learner
    with socket.create_connection(
        (address.host, address.port if which == "experience" else address.feed_port)
    ) as connection:
        connection.settimeout(PATIENCE_S)
        connection.sendall(b"\x01\x00" + b"\x03\x00\x01t/" + b"\x06\x00hello")
        with suppress(ConnectionResetError):
            while connection.recv(100):
                pass
    assert not (pull if which == "experience" else feed).poll(50)
