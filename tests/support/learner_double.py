"""A learner without training: the real endpoint, in process or behind real sockets."""

import itertools
from collections.abc import Callable
from typing import Any

from farflung.actor.connection.policy_client import PolicyClient
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Spec
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.keys import ANY_CLIENT
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.names import UNTIL_SHARE
from farflung.common.protocol.outbox import Frame
from farflung.common.protocol.wire import Kind
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.endpoint.items import PARCELS, Item
from farflung.learner.transport.network_thread import NetworkThread
from support.contexts import ANYWHERE, listening_again
from support.makers import a_spec, some_weights
from support.waiting import PATIENCE_S, Clock, Deadline


class LearnerDouble:
    """A learner's endpoint without sockets; it publishes `versions` versions at the start."""

    def __init__(
        self,
        spec: Spec | None = None,
        epoch: int = 1,
        learner_id: int = 7,
        inbox: Inbox | None = None,
        versions: int = 1,
        takes: frozenset[Kind] = PARCELS,
        until_share: int = UNTIL_SHARE,
    ) -> None:
        self.spec, self.epoch = spec or a_spec(), epoch
        self.room = 1 << 20  # rows the queue can take
        self.accepted: list[Item[Parcel]] = []
        own: dict[str, Any] = {"learner_id": learner_id, "takes": takes, "until_share": until_share}
        self.endpoint = Endpoint(self.spec, inbox or Inbox(epoch), **own)
        self.receiver, self.publisher = self.endpoint.receiver, self.endpoint.publisher
        self._asked: bytes | None = None
        self._asked_archived: bytes | None = None
        for number in range(1, versions + 1):
            self.publish(number)

    @property
    def parcels(self) -> list[Parcel]:
        """The accepted parcels in order of arrival."""
        return [item.content for item in self.accepted]

    def publish(self, number: int = 1, **changes: Any) -> None:
        """Publish a version with `some_weights`."""
        self.publisher.publish(some_weights(self.spec, number, epoch=self.epoch, **changes))

    def due(self, now: float, client: PolicyClient | None = None) -> list[tuple[bytes, bytes]]:
        """Return the due messages, after the client's subscription to its own topic."""
        if client is not None and client.snapshot_topic not in (None, self._asked):
            self._asked = client.snapshot_topic
            self.endpoint.subscribed(client.snapshot_topic)
        if client is not None and client.archive.topic not in (None, self._asked_archived):
            self._asked_archived = client.archive.topic
            self.endpoint.subscribed(client.archive.topic)
        self.endpoint.progress(0, 0, self.room)
        return [(topic, bytes(frame)) for topic, frame in self.endpoint.due(now)]

    def send_to(self, client: PolicyClient, now: float) -> None:
        """Deliver the due messages that the client subscribes to."""
        for topic, frame in self.due(now, client):
            if any(topic.startswith(subscription) for subscription in client.subscriptions):
                client.receive(topic, frame, now)

    def receive_from(self, client: PolicyClient, now: float) -> list[bytes]:
        """Receive and settle the client's messages; return their frames."""
        frames: list[bytes] = []

        def receive(frame: Frame) -> bool:
            frames.append(bytes(frame))
            self.endpoint.receive([(frame, ANY_CLIENT)], now)
            return True

        client.drain(now, receive)
        self.endpoint.settle()
        self.accepted += self.endpoint.queue.parcels.take(len(self.endpoint.queue.parcels))
        return frames


class DoubleTransport:
    """Carries messages between a client and a learner double; `each` is called after every turn."""

    address = "double"

    def __init__(
        self,
        client: PolicyClient,
        learner: LearnerDouble,
        clock: Clock,
        each: Callable[[int], None] = lambda turn: None,
    ) -> None:
        self.client, self.learner = client, learner
        self.clock, self._each = clock, each
        self._turns = itertools.count(1)
        client.ask(clock.now)

    def exchange(self, timeout_s: float) -> None:
        """Exchange messages once."""
        self.clock.wait(timeout_s)
        now = self.clock()
        self.learner.send_to(self.client, now)
        if self.client.due(now).value != "nothing":
            self.client.ask(now)
        self.learner.receive_from(self.client, now)
        self._each(next(self._turns))

    def close(self, reason: str, patience_s: float) -> bool:
        """Close nothing."""
        return self.client.outbox.idle


class ServedLearner:
    """A learner double behind real sockets, driven by the product's network thread."""

    def __init__(
        self, context: sockets.Context, double: LearnerDouble, address: Address = ANYWHERE
    ) -> None:
        self.double, self.queue = double, double.endpoint.queue
        self.queue.room = double.room
        self.network_thread = listening_again(
            lambda: NetworkThread(context, address, double.endpoint)
        )
        self.address = self.network_thread.address
        self.network_thread.start()

    def take(self, count: int) -> list[Parcel]:
        """Take so many parcels from the queue, or fail."""
        parcels: list[Parcel] = []
        deadline = Deadline(PATIENCE_S)
        while not deadline.over:
            fitting = min(len(self.queue.parcels), count - len(parcels))
            parcels += [item.content for item in self.queue.parcels.take(fitting)]
            if len(parcels) == count:
                return parcels
            self.queue.wait(0.1)
        raise AssertionError(f"{len(parcels)} of {count} parcels came")
