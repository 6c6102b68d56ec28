"""The gate of a feed, over real sockets: who has which topic, and which connection is cut."""

import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import zmq
from support.contexts import ANYWHERE, fresh_context
from support.waiting import eventually, readable

from farflung.common.net import sockets
from farflung.common.net.gate import Gate
from farflung.common.net.keys import Client
from farflung.common.net.listener import Listener
from farflung.common.net.shares import Share, Shares
from farflung.common.net.sockets import Socket
from farflung.common.process.errors import Refused

SMALL = Share(4096, 100, 10)
SHARES = Shares(SMALL, SMALL, Share(1 << 20, 10_000, 1000))


class Owner:
    """A side that agrees to what begins with `good`, and refuses `label`."""

    def __init__(self) -> None:
        self.held: Counter[bytes] = Counter()
        self.refused: list[Refused] = []

    def subscribed(self, topic: bytes, sender: Client) -> bool:
        if topic == b"label":
            raise Refused("label", "another name")
        if topic.startswith(b"good"):
            self.held[topic] += 1
        return topic.startswith(b"good")

    def unsubscribed(self, topic: bytes, sender: Client) -> None:
        self.held[topic] -= 1
        assert self.held[topic] >= 0, "taken back more often than it was agreed to"

    def is_known(self, topic: bytes) -> bool:
        return False

    def refuse(self, refusal: Refused) -> None:
        self.refused.append(refusal)


class Side:
    """A listener with its gate."""

    def __init__(self, context: sockets.Context) -> None:
        self.owner = Owner()
        self.listener = Listener(context, ANYWHERE, 1)
        self.gate = Gate(self.listener, self.owner, SHARES, time.monotonic())

    def until(self, condition: Callable[[], object]) -> None:
        """Receive until a condition holds."""

        def look() -> object:
            self.gate.receive(time.monotonic())
            return condition()

        eventually(look)

    @property
    def held(self) -> dict[bytes, int]:
        """The topics with a subscriber."""
        return dict(+self.owner.held)

    @property
    def connections(self) -> int:
        return len(self.gate._account.holders)


@pytest.fixture
def side() -> Iterator[Side]:
    """A gate."""
    with fresh_context() as context:
        made = Side(context)
        yield made
        made.listener.close(linger_ms=0)


@pytest.fixture
def dial(context: sockets.Context, side: Side) -> Iterator[Callable[..., Socket]]:
    """Return a function that dials with an XSUB and says some words."""
    made: list[Socket] = []

    def call(*words: bytes) -> Socket:
        socket = sockets.probe(context, zmq.XSUB, side.listener.address)
        made.append(socket)
        socket.set(zmq.SNDHWM, 0)
        socket.set(zmq.RECONNECT_IVL, -1)
        socket.connect(side.listener.address.feed)
        for word in words:
            socket.send(word)
        return socket

    yield call
    for socket in made:
        socket.close(linger=0)


def test_an_agreed_topic_is_delivered_and_another_is_not(side, dial):
    """Each connection gets what its own subscription was agreed to for."""
    one, other = dial(b"\x01good/1", b"\x01bad/1"), dial(b"\x01good/2")
    side.until(lambda: side.held == {b"good/1": 1, b"good/2": 1})
    for topic in (b"good/1", b"bad/1", b"good/2"):
        side.listener.feed.send_multipart((topic, b"content"))
    assert readable(one)
    assert one.recv_multipart()[0] == b"good/1"
    assert readable(other)
    assert other.recv_multipart()[0] == b"good/2"
    assert not one.poll(50)


def test_a_flood_is_cut_and_others_keep_their_topics(side, dial):
    """It is refused once, leaves nothing, and takes nothing of others with it."""
    honest = dial(b"\x01good/shared", b"\x01good/own")
    side.until(lambda: len(side.held) == 2)
    dial(b"\x01good/shared", *(b"\x01good/%d" % number for number in range(5000)))
    side.until(lambda: side.owner.refused)
    side.until(lambda: side.connections == 1)
    assert side.held == {b"good/shared": 1, b"good/own": 1}
    assert [refusal.reason for refusal in side.owner.refused] == ["subscriptions"]
    side.listener.feed.send_multipart((b"good/shared", b"content"))
    assert readable(honest)


def test_a_connection_that_ends_takes_back_its_own_topics(side, dial):
    """Each once, also those that it repeated; what was refused to it stays with its owner."""
    dial(b"\x01good/1", b"\x01good/2")
    side.until(lambda: len(side.held) == 2)
    leaver = dial(b"\x01good/1", b"\x01good/1", b"\x01label", b"\x01good/3", b"\x00good/2")
    side.until(lambda: b"good/3" in side.held)
    side.owner.held[b"good/1"] -= 1  # a repetition asks again
    leaver.close(linger=0)
    side.until(lambda: side.connections == 1)
    assert side.held == {b"good/1": 1, b"good/2": 1}
    assert [refusal.reason for refusal in side.owner.refused] == ["label"]


def test_a_long_message_ends_its_connection(side, dial):
    """libzmq itself cuts it, so no topic of a megabyte is ever kept."""
    dial(b"\x01good/1", b"\x01good/" + b"x" * 1000, b"\x01good/2")
    honest = dial(b"\x01good/honest")
    side.until(lambda: side.held == {b"good/honest": 1})
    side.listener.feed.send_multipart((b"good/honest", b"content"))
    assert readable(honest)


def test_a_connection_that_ended_before_it_was_read_leaves_nothing_to_its_successor(side, dial):
    """The next one has its descriptor when its words are read, and keeps its own topics alone."""
    watch = side.listener.authenticator.watch
    leaver = dial(b"\x01good/1")
    eventually(lambda: len(watch.connections) == 1 and side.listener.feed.poll(0))
    leaver.close(linger=0)
    eventually(lambda: len(watch.connections) == 0)
    honest = dial(b"\x01good/honest")
    eventually(lambda: len(watch.connections) == 1)
    side.until(lambda: side.held == {b"good/honest": 1})
    assert side.connections == 1
    side.listener.feed.send_multipart((b"good/honest", b"content"))
    assert readable(honest)


def test_new_sockets_have_no_subscriptions(side, dial):
    """As after a revocation: clients that come back subscribe again."""
    dial(b"\x01good/1")
    side.until(lambda: side.held)
    side.gate.reset(time.monotonic())
    assert side.held == {}
    assert side.connections == 0
