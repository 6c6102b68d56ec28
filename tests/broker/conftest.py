"""Fixtures of the broker: brokers in threads, and learners that only have sockets."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
import zmq
from support.contexts import ANYWHERE, listening_again
from support.waiting import eventually, readable

from farflung.broker.relay_loop import Broker
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.process.lifecycle import Stop
from farflung.common.protocol.wire import MAX_GRADIENTS_BYTES, MAX_MESSAGE_BYTES

Made = TypeVar("Made")


class Running:
    """A broker at work in a thread. `later` moves its clock."""

    def __init__(
        self,
        learners: tuple[Address, ...],
        address: Address,
        capacity: int,
        name: str,
        largest: int,
    ) -> None:
        self.later = 0.0
        self.failure: Exception | None = None
        self._context = sockets.context()  # a listener has one for itself
        self.broker = Broker(
            self._context,
            address,
            learners,
            capacity,
            name,
            lambda: time.monotonic() + self.later,
            largest=largest,
        )
        self.address = self.broker.address
        self._stop = Stop()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def status(self) -> Any:
        """Return its counters."""
        return self.broker.status(time.monotonic())

    def ended(self) -> Any:
        """Stop it; return its last counters."""
        self._stop.set("the test is over")
        self.join()
        return self.status

    def join(self) -> None:
        """Wait for its end."""
        eventually(lambda: not self._thread.is_alive(), "the end of a broker")

    def _run(self) -> None:
        try:
            self.broker.run(self._stop)
        except Exception as error:
            self.failure = error
        finally:
            self.broker.close()
            self._context.term()


class Upstream:
    """The sockets of a learner, which accept every subscription and note it."""

    def __init__(self, context: sockets.Context, address: Address = ANYWHERE) -> None:
        self.address, self.pull, self.feed = sockets.listen(
            context, address, 1, largest=MAX_GRADIENTS_BYTES
        )
        self.subscriptions: list[bytes] = []

    def receive(self) -> list[bytes]:
        """Return every subscription and unsubscription so far, in their order."""
        while int(self.feed.get(zmq.EVENTS)) & zmq.POLLIN:
            subscription = self.feed.recv()
            self.subscriptions.append(subscription)
            self.feed.set(
                zmq.SUBSCRIBE if subscription[:1] == b"\x01" else zmq.UNSUBSCRIBE, subscription[1:]
            )
        return self.subscriptions

    def named(self, topic: bytes, condition: Callable[[], Any]) -> None:
        """Publish under a topic until a condition holds, as learners repeat their beacons.

        The first subscription may be another program's, which dials a port that was its learner's.
        """

        def published() -> Any:
            self.publish(topic)
            return condition()

        eventually(published)

    def publish(self, topic: bytes, frame: bytes = b"") -> None:
        """Publish a frame under a topic."""
        self.receive()
        self.feed.get(zmq.EVENTS)
        self.feed.send_multipart([topic, frame])

    def take(self, count: int) -> list[bytes]:
        """Take so many experience messages, or fail."""
        taken = []
        for _ in range(count):
            assert readable(self.pull), f"{len(taken)} of {count} came"
            taken.append(self.pull.recv())
        return taken

    def close(self) -> None:
        """Close the sockets."""
        self.pull.close(linger=0)
        self.feed.close(linger=0)


@pytest.fixture
def upstream(context: sockets.Context) -> Iterator[Callable[..., Upstream]]:
    """Return a maker of upstreams; they are closed at the end."""
    opened: list[Upstream] = []

    def make(*address: Address) -> Upstream:
        opened.append(listening_again(lambda: Upstream(context, *address)))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@pytest.fixture
def broker() -> Iterator[Callable[..., Running]]:
    """Return a function that starts a broker in front of upstreams; all end with the test."""
    started: list[Running] = []

    def start(
        *learners: Address,
        address: Address = ANYWHERE,
        capacity: int = 1 << 20,
        name: str = "",
        largest: int = MAX_MESSAGE_BYTES,
    ) -> Running:
        own = name or f"broker-{len(started)}"
        started.append(listening_again(lambda: Running(learners, address, capacity, own, largest)))
        return started[-1]

    yield start
    for one in started:
        one.ended()


@pytest.fixture
def served(
    broker: Callable[..., Running], upstream: Callable[..., Upstream]
) -> Callable[..., tuple[Any, ...]]:
    """Return a function that starts a broker in front of so many upstreams.

    Each has published a beacon, for policy p0 at the first one.
    """

    def serve(count: int = 1, **options: Any) -> tuple[Any, ...]:
        upstreams = [upstream() for _ in range(count)]
        made = broker(*(one.address for one in upstreams), **options)
        for number, one in enumerate(upstreams):
            topic = f"c/p{number}/".encode()
            one.named(topic, lambda number=number: made.status.upstreams[number].policies)
        return made, *upstreams

    return serve
