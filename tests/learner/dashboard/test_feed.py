"""The subscription to an address, with real sockets: heard, cut, odd, and heard again."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import zmq
from support.contexts import listening_again
from support.dashboards import STATUS
from support.waiting import eventually

from farflung.broker.relay_loop import Broker
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.sockets import Context
from farflung.common.process.lifecycle import Stop
from farflung.common.protocol.messages import Telemetry
from farflung.common.protocol.topics import acknowledgement, broker, telemetry
from farflung.common.protocol.wire import encode
from farflung.learner.dashboard import feed
from farflung.learner.dashboard.feed import DOCUMENT_BYTES, Feed
from farflung.learner.dashboard.library import Library
from farflung.learner.observe.status import Status, to_document

pytestmark = pytest.mark.slow  # real sockets, and silence


def frame(status: Status) -> bytes:
    """The telemetry message of a status."""
    return bytes(encode(Telemetry(status.run, status.policy, status.epoch, to_document(status))))


@contextmanager
def publisher(context: Context, port: int = 0) -> Iterator[tuple[zmq.Socket[bytes], int]]:
    """A learner's feed; port 0 means any."""
    with context.socket(zmq.PUB) as socket:
        socket.set(zmq.LINGER, 0)
        if port:
            listening_again(lambda: _bound(socket, port))
        else:
            port = socket.bind_to_random_port("tcp://127.0.0.1")
        yield socket, port


def _bound(socket: "zmq.Socket[bytes]", port: int) -> bool:
    from farflung.common.process.errors import ConfigurationError

    try:
        socket.bind(f"tcp://127.0.0.1:{port}")
    except zmq.ZMQError as error:
        raise ConfigurationError("in use") from error
    return True


@pytest.fixture
def subscribed(context: Context) -> Iterator[Callable[[int], tuple[Feed, Library]]]:
    """Subscribes a library to a feed port of loopback."""
    started: list[Feed] = []

    def subscribe(port: int) -> tuple[Feed, Library]:
        library = Library()
        address = Address("127.0.0.1", port - 1, port)
        made = Feed(context, address, None, library, pytest.fail)
        made.start()
        started.append(made)
        return made, library

    yield subscribe
    for each in started:
        each.close()
        assert not each.alive


def sent(socket: "zmq.Socket[bytes]", *frames: bytes, topic: bytes = b"") -> bool:
    """Send these frames; true, so that a wait can go on with it."""
    for each in frames:
        socket.send_multipart([topic or telemetry("default"), each])
    return True


def test_learner_that_is_killed_comes_back(
    context: Context, subscribed: Callable[[int], tuple[Feed, Library]]
) -> None:
    """The next start of it is heard on the same port, as the same run."""
    with publisher(context) as (socket, port):
        _, library = subscribed(port)
        eventually(lambda: sent(socket, frame(STATUS)) and library.all(), "a status", look_s=0.05)
    again = frame(replace(STATUS, epoch=2))

    def starts() -> int:
        [run] = library.all()
        assert run.live is not None
        return run.live.starts

    with publisher(context, port) as (socket, _):
        eventually(lambda: sent(socket, again) and starts() == 2, "the next start", look_s=0.05)


def test_odd_messages_are_counted_and_passed_over(
    context: Context, subscribed: Callable[[int], tuple[Feed, Library]]
) -> None:
    """Bytes, a document that is none, one of a broker; a status after them is heard."""
    with publisher(context) as (socket, port):
        heard, library = subscribed(port)
        odd = bytes(encode(Telemetry("r", "default", 1, '{"steps": "many"}')))
        eventually(lambda: sent(socket, b"odd", odd) and heard.unread >= 2, "both", look_s=0.05)
        assert "cannot be read" in heard.problem
        eventually(lambda: sent(socket, frame(STATUS)) and library.all(), "a status", look_s=0.05)
        before = heard.unread  # messages come in their order: no odd one is on its way
        sent(socket, b"odd", frame(STATUS), topic=broker("b"))
        later = frame(replace(STATUS, run="later"))
        eventually(lambda: sent(socket, later) and len(library.all()) == 2, "the next", look_s=0.05)
        assert (heard.unread, heard.problem) == (before + 2, "")
        assert library.brokers() == []


def test_broker_is_heard_with_its_figures(
    context: Context, subscribed: Callable[[int], tuple[Feed, Library]]
) -> None:
    """Those that a real one publishes: an actor behind it, what it refused, and its upstream."""
    stop, nowhere = Stop(), Address("127.0.0.1", 1, 2)
    own = sockets.context()  # a listener has one for itself
    relay = Broker(own, Address("127.0.0.1", 0, 0), [nowhere], 1000, "edge")
    thread = threading.Thread(target=relay.run, args=(stop,))
    thread.start()
    try:
        _, library = subscribed(relay.address.feed_port)
        words = ("default", "box-1", 7)
        with sockets.feed_subscriber(context, relay.address, [acknowledgement(*words)]):
            eventually(lambda: [each["actors"] for each in library.brokers()] == [1], "an actor")
            [found] = library.brokers()
            eventually(
                lambda: library.brokers()[0]["feed_messages_per_second"] is not None, "a rate"
            )
        eventually(lambda: library.brokers()[0]["actors"] == 0, "the actor's leave")
    finally:
        stop.set("the test is over")
        thread.join()
        relay.close()
        own.term()
        stop.close()
    assert (found["broker"], found["heard"], found["refused"]) == ("edge", True, {})
    assert found["memory"] > 1_000_000
    assert [each["address"] for each in found["upstreams"]] == [str(nowhere)]


def test_message_that_is_too_large_takes_no_memory(
    context: Context,
    subscribed: Callable[[int], tuple[Feed, Library]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """libzmq ends the connection for good, so another socket is made after some silence."""
    monkeypatch.setattr(feed, "SILENT_S", 0.3)
    monkeypatch.setattr(feed, "AGAIN_S", 0.3)
    with publisher(context) as (socket, port):
        heard, library = subscribed(port)
        eventually(lambda: sent(socket, frame(STATUS)) and library.all(), "a status", look_s=0.05)
        sent(socket, b"x" * (DOCUMENT_BYTES + 1))
        later = frame(replace(STATUS, run="later"))
        eventually(lambda: sent(socket, later) and len(library.all()) == 2, "the next", look_s=0.05)
        assert heard.unread == 0


def test_silent_address_has_a_cause(
    subscribed: Callable[[int], tuple[Feed, Library]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `learner status` names it."""
    monkeypatch.setattr(feed, "SILENT_S", 0.0)
    heard, _ = subscribed(2)  # no program listens on such a port
    eventually(lambda: heard.problem, "a diagnosis")
    assert "127.0.0.1" in heard.problem


def test_failure_of_the_thread_is_told(context: Context) -> None:
    """A fault of ours is never a page that quietly stands still."""
    told: list[str] = []

    class Broken(Library):
        def hear(self, status: Status, address: str) -> None:
            raise RuntimeError("a fault of ours")

    with publisher(context) as (socket, port):
        heard = Feed(context, Address("127.0.0.1", port - 1, port), None, Broken(), told.append)
        heard.start()
        eventually(lambda: sent(socket, frame(STATUS)) and told, "the end", look_s=0.05)
        heard.close()
    assert told == [f"the subscription to 127.0.0.1:{port - 1} ended: a fault of ours"]
