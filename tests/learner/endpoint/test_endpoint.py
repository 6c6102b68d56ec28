"""The endpoint: a burst is received as one, and nothing is acknowledged before it is kept."""

import math

import pytest
from support.makers import a_frame, a_gradients_frame, a_parcel, a_spec, some_weights

from farflung.common.data.weights import Version
from farflung.common.net.keys import ANY_CLIENT
from farflung.common.protocol import tensors, topics, wire
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.messages import Beacon, Telemetry
from farflung.common.protocol.wire import Kind
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.endpoint.items import RefusedNumber, Unlogged

W, C, T = topics.weights("default"), topics.beacon("default"), topics.telemetry("default")


class HeldLog(Unlogged):
    """A log that keeps bursts until they are released."""

    waiting_rows = 3

    def __init__(self, endpoint):
        super().__init__(endpoint.queue.put)
        self.bursts, self.marked = [], []

    def append(self, items):
        self.bursts.append(items)

    def mark(self, weights):
        self.marked.append(weights.version)

    def release(self):
        """Deliver and settle all bursts."""
        for items in self.bursts:
            super().append(items)


@pytest.fixture
def endpoint():
    """An endpoint without a log, with room for 1000 rows."""
    endpoint = Endpoint(a_spec(), learner_id=5)
    endpoint.progress(0, 0, 1000)
    return endpoint


def receive(endpoint, *frames, now=0.0):
    return endpoint.receive([(frame, ANY_CLIENT) for frame in frames], now)


def messages(endpoint, topic, now=0.0):
    return [bytes(frame) for found, frame in endpoint.due(now) if found == topic]


def a_broken_parcel():
    parcel = a_parcel()
    parcel.columns["rewards"][0] = math.nan
    return parcel


def test_endpoint_counts_every_message_of_a_burst(endpoint):
    """New, repeated and damaged ones."""
    frame = a_frame(endpoint.spec)
    assert receive(endpoint, frame, frame, b"damaged") == 3
    assert endpoint.inbox.ledger.received == 3
    assert len(endpoint.queue.parcels) == 1


def test_endpoint_counts_the_bytes_of_messages_in_and_out(endpoint):
    """Each message of the feed once, however many receive it; a refused one came in too."""
    first, second = a_frame(endpoint.spec), b"nonsense"
    receive(endpoint, first, second)
    assert endpoint.bytes_in == len(first) + len(second)
    sent = [frame for _, frame in endpoint.due(0.0)]
    assert endpoint.bytes_out == sum(map(len, sent)) > 0


def test_endpoint_hands_a_burst_to_its_log_as_one(endpoint):
    """Parcels and refused numbers alike; messages that are neither go no further."""
    endpoint.log = HeldLog(endpoint)
    good, bad = a_frame(endpoint.spec), a_frame(endpoint.spec, a_broken_parcel(), sequence=2)
    receive(endpoint, good, bad, good)
    receive(endpoint, b"damaged")
    ((first, second),) = endpoint.log.bursts
    assert (first.content.rows, second.content) == (3, RefusedNumber("nonfinite"))


def test_endpoint_acknowledges_nothing_before_it_is_settled(endpoint):
    """Refusals are told as late as acknowledgements."""
    endpoint.log = HeldLog(endpoint)
    good, bad = a_frame(endpoint.spec), a_frame(endpoint.spec, a_broken_parcel(), sequence=2)
    receive(endpoint, good, bad)
    pending = endpoint.inbox.state()
    assert (endpoint.settle(), len(endpoint.queue.parcels)) == (0, 0)
    assert (pending["accepted"], pending["refused"]) == (0, {"nonfinite": 0})
    endpoint.log.release()
    assert (endpoint.settle(), len(endpoint.queue.parcels)) == (2, 1)
    settled = endpoint.inbox.state()
    assert (settled["accepted"], settled["refused"]) == (1, {"nonfinite": 1})
    assert endpoint.inbox.ledger.balanced


def test_endpoint_passes_gradients_to_training_without_the_log():
    """They need not survive a restart; nothing is acknowledged until they are applied."""
    endpoint = Endpoint(a_spec(), learner_id=5, takes=frozenset({Kind.PARCEL, Kind.GRADIENTS}))
    endpoint.progress(0, 0, 1000)
    endpoint.log = HeldLog(endpoint)
    endpoint.publish(some_weights(endpoint.spec))
    assert messages(endpoint, W)
    parcel = a_frame(endpoint.spec, actor="box-2")
    receive(endpoint, a_gradients_frame(endpoint.spec), parcel)
    ((parcel,),) = endpoint.log.bursts
    assert parcel.content.rows == 3
    (gradients,) = endpoint.queue.gradients.take(1)
    assert endpoint.settle() == 0
    gradients.settle()
    assert endpoint.settle() == 1
    books = endpoint.receiver.inboxes
    assert (books.received("box-1", 7).highest, books.received("box-2", 7).highest) == (1, 0)
    assert endpoint.inbox.ledger.received == 1  # the parcel, which waits in the log


def test_endpoint_settles_refused_gradients_at_once():
    """Nothing of them is in the log, and the worker learns the reason."""
    endpoint = Endpoint(a_spec(), learner_id=5, takes=frozenset({Kind.PARCEL, Kind.GRADIENTS}))
    endpoint.log = HeldLog(endpoint)
    receive(endpoint, a_gradients_frame(endpoint.spec))  # no version is published
    assert (endpoint.log.bursts, endpoint.settle()) == ([], 1)
    books = endpoint.receiver.inboxes
    assert books.received("box-1", 7).refused == ((1, "version"),)
    assert (endpoint.inbox.ledger.received, books.gradients.ledger.refused) == (0, {"version": 1})


def test_endpoint_publishes_the_newest_of_several_versions(endpoint):
    """Each is marked in the log; only the last one is sent."""
    endpoint.log = HeldLog(endpoint)
    for number in (1, 2, 3):
        endpoint.publish(some_weights(endpoint.spec, number))
    (frame,) = messages(endpoint, W)
    weights = tensors.read_weights(wire.open_frame(frame), endpoint.spec.graph.weights)
    assert weights.version == Version(1, 3)
    assert endpoint.log.marked == [Version(1, number) for number in (1, 2, 3)]
    assert messages(endpoint, W) == []


def test_endpoint_sends_the_newest_status(endpoint):
    """To all watchers, once."""
    endpoint.publish_status("{}")
    endpoint.publish_status('{"steps": 1}')
    (message,) = (wire.read(wire.open_frame(frame)) for frame in messages(endpoint, T))
    assert isinstance(message, Telemetry)
    assert message.document == '{"steps": 1}'


def test_beacon_has_the_steps_and_updates_of_training(endpoint):
    """As they were noted last."""
    endpoint.progress(640, 80, 0)
    (message,) = (wire.read(wire.open_frame(frame)) for frame in messages(endpoint, C))
    assert isinstance(message, Beacon)
    assert (message.steps, message.updates) == (640, 80)


def test_endpoint_has_the_epoch_of_its_inbox():
    """A first one, unless an inbox was recovered."""
    assert (Endpoint(a_spec()).epoch, Endpoint(a_spec(), Inbox(4)).epoch) == (1, 4)


def test_endpoint_knows_the_size_of_a_version(endpoint):
    """A matrix of 2 x 2 float32."""
    assert endpoint.weights_bytes == 16
