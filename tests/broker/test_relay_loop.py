"""A broker between real sockets.

Frames go up to their learner, feeds go down, and no client holds up another.
"""

import io
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.contexts import fresh_context
from support.waiting import eventually, readable

from farflung.broker.relay import POLICIES
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.sockets import Socket
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import Telemetry
from farflung.learner.observe.watch import Unhealthy, watch

Z = topics.snapshot("p0", "box-1", 7, 1)
Served = Callable[..., Any]


def word(policy: str, size: int = 1, kind: wire.Kind = wire.Kind.PARCEL) -> bytes:
    """An experience message with so much data; a relay needs nothing else of its envelope."""
    envelope = {"policy": policy, "actor": "box-1"}
    if kind is wire.Kind.PARCEL:
        return bytes(wire.assemble(kind, envelope, [b"x" * size]))
    return bytes(wire.assemble(kind, envelope | {"data": b"x" * size}))


@pytest.fixture
def dial(context: sockets.Context) -> Iterator[Callable[..., tuple[Socket, Socket]]]:
    """An actor's two sockets, without an actor."""
    made: list[Socket] = []

    def make(address: Address, *wanted: bytes) -> tuple[Socket, Socket]:
        pair = (
            sockets.experience_sender(context, address),
            sockets.feed_subscriber(context, address, sorted(wanted)),
        )
        made.extend(pair)
        return pair

    yield make
    for socket in made:
        socket.close(linger=0)


def heard(feed: Socket) -> list[bytes]:
    """The next message on a feed, apart from the empty beacons of `served` that are on the way."""
    frames = [b"", b""]
    while frames[1] == b"":
        assert readable(feed)
        frames = feed.recv_multipart()
    return frames


def balanced(status: Any) -> bool:
    """Return whether every received message is accounted for."""
    kept = sum(up.passed + up.queued + sum(up.dropped.values()) for up in status.upstreams)
    return bool(status.received == kept + sum(status.refused.values()))


# ---- up


def test_a_frame_is_passed_on_unread(served: Served, dial: Any) -> None:
    """To the bit, even if it was damaged on the way: its checksum is the learner's business."""
    broker, learner = served()
    push, _ = dial(broker.address)
    frames = [word("p0"), word("p0", 200_000), word("p0")[:-1] + b"?"]
    for frame in frames:
        push.send(frame)
    assert learner.take(3) == frames
    status = broker.ended()
    assert (status.received, status.upstreams[0].passed, status.upstreams[0].passed_bytes) == (
        3,
        3,
        sum(map(len, frames)),
    )


def test_spans_pass_beside_words_and_rows(served: Served, dial: Any) -> None:
    """However many they are, hellos and reports pass too; a name that sends them sent no parcel."""
    broker, learner = served()
    push, _ = dial(broker.address)
    spans = [word("p0", 30_000, wire.Kind.SPANS)] * 20  # 30 words each, if they were any
    for _ in range(25):
        for frame in spans:
            push.send(frame)
        assert learner.take(20) == spans
    hello = word("p0", 1, wire.Kind.HELLO)
    push.send(hello)
    assert learner.take(1) == [hello]
    assert not broker.broker._names.has_parcels(("box-1", 0))
    status = broker.ended()
    assert (status.received, status.refused) == (501, {})


@pytest.mark.slow
def test_a_frame_may_be_as_large_as_the_broker_was_told(served: Served, dial: Any) -> None:
    """Gradients of weights of 65 MiB, which no broker passes on by itself."""
    size = 65 << 20
    broker, learner = served(largest=wire.most_experience_bytes(size))
    push, _ = dial(broker.address)
    frame = wire.assemble(wire.Kind.GRADIENTS, {"policy": "p0", "actor": "box-1"}, [bytes(size)])
    push.send(frame)
    (taken,) = learner.take(1)
    assert (len(taken), wire.checksum(taken)) == (len(frame), wire.checksum(frame))
    assert wire.intact(memoryview(taken))
    assert balanced(broker.ended())


def test_each_policy_has_its_learner(served: Served, dial: Any) -> None:
    """Both have one address; messages for an unknown policy are refused and counted."""
    broker, red, blue = served(2)
    push, _ = dial(broker.address)
    for policy in ("p1", "p0", "p2", "p1"):
        push.send(word(policy))
    assert red.take(1) == [word("p0")]
    assert blue.take(2) == [word("p1")] * 2
    status = broker.ended()
    assert status.refused == {"unknown policy": 1}
    assert balanced(status)


def test_an_actor_of_a_thousand_policies_holds_up_no_others(served: Served, dial: Any) -> None:
    """Its messages are refused and counted, for no learner publishes about those policies."""
    broker, learner = served()
    names = [f"x{number}" for number in range(1000)]
    push, _ = dial(broker.address, *(f"{kind}/{name}/".encode() for kind in "cw" for name in names))
    for name in names:
        push.send(word(name))
    honest, feed = dial(broker.address, b"w/p0/")
    honest.send(word("p0"))
    assert learner.take(1) == [word("p0")]
    eventually(lambda: b"\x01w/p0/" in learner.receive())
    learner.publish(b"w/p0/", b"news")
    assert heard(feed) == [b"w/p0/", b"news"]
    eventually(lambda: broker.status.received == 1001)
    status = broker.ended()
    assert status.refused == {"unknown policy": 1000}
    assert balanced(status)


def test_a_learner_of_a_thousand_policies_is_named(
    served: Served, dial: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker passes on messages for so many as it serves; the other learner has its own."""
    broker, hostile, honest = served(2)

    def named() -> bool:
        for number in range(1000):
            hostile.publish(f"c/x{number}/".encode())
        return f"publishes about more than {POLICIES} policies" in caplog.text

    eventually(named)
    assert len(broker.status.upstreams[0].policies) == POLICIES
    push, _ = dial(broker.address)
    push.send(word("p1"))
    assert honest.take(1) == [word("p1")]
    assert broker.status.upstreams[1].policies == ("p1",)


def test_what_is_no_experience_is_refused_by_reason(served: Served, dial: Any) -> None:
    """Random bytes, several parts, a message of the feed, another protocol.

    Honest ones pass all the while.
    """
    broker, learner = served()
    push, _ = dial(broker.address)
    push.send(b"nonsense")
    push.send_multipart([word("p0"), b"more", b"and more"])
    push.send(bytes(wire.encode(Telemetry("run-1", "p0", 1, "{}"))))
    push.send(word("p0")[:2] + b"\x09" + word("p0")[3:])
    push.send(word("p0"))
    assert learner.take(1) == [word("p0")]
    status = broker.ended()
    assert status.refused == {"truncated": 1, "parts": 1, "kind": 1, "protocol": 1}
    assert balanced(status)


def test_a_snapshot_is_enough_to_know_whom_it_came_from(served: Served, dial: Any) -> None:
    """The hello that confirms it often comes before the next beacon."""
    broker, learner = served()
    _, feed = dial(broker.address, topics.snapshot("late", "box-1", 7, 1))
    private = topics.snapshot("late", "box-1", 7, 1)
    while not feed.poll(10):
        learner.publish(private, b"weights")
    push, _ = dial(broker.address)
    push.send(word("late"))
    assert learner.take(1) == [word("late")]


@pytest.mark.slow
def test_a_learner_that_takes_nothing_holds_up_nobody(served: Served, dial: Any) -> None:
    """Its queue fills to the bound, the rest is dropped and counted.

    The other learner gets everything. How many frames the connection takes before it notices that
    its learner is gone is up to the threads of libzmq, so frames are sent until one is dropped.
    """
    capacity, frame, sent = 1 << 20, word("p0", 60_000), itertools.count(1)
    broker, dead, alive = served(2, capacity=capacity)
    push, _ = dial(broker.address)
    dead.close()

    def dropped() -> bool:
        push.send(frame)
        push.send(word("p1"))
        next(sent)
        return bool(broker.status.upstreams[0].dropped)

    eventually(dropped)
    count = next(sent) - 1
    assert alive.take(count) == [word("p1")] * count
    eventually(lambda: broker.status.received == 2 * count)
    status = broker.ended()
    full = status.upstreams[0]
    assert capacity - len(frame) < full.queued_bytes <= capacity
    assert full.passed >= sockets.RELAY_MESSAGES  # the socket is full, too
    assert full.dropped == {"queue full": count - full.passed - full.queued}
    assert balanced(status)


# ---- down


def test_a_feed_goes_to_those_who_listen(served: Served, dial: Any) -> None:
    """Small messages and large, as they are.

    The learner repeats both: a large one may be lost where a broker takes a shorter queue for it.
    """
    broker, learner = served()
    small, large = [b"c/p0/", b"beacon"], [b"w/p0/", b"x" * 300_000]
    _, one = dial(broker.address, b"c/p0/", b"w/p0/")
    _, other = dial(broker.address, b"c/p0/")
    told: dict[Socket, list[list[bytes]]] = {one: [], other: []}

    def all_told() -> bool:
        for frames in (large, small):
            learner.publish(*frames)
        for feed, heard_so_far in told.items():
            while feed.poll(10):
                heard_so_far.append(feed.recv_multipart())
        return large in told[one] and small in told[one] and told[other].count(small) > 1

    eventually(all_told)
    assert all(frames in (small, large, [b"c/p0/", b""]) for frames in told[one])
    assert all(frames in (small, [b"c/p0/", b""]) for frames in told[other])


def test_a_question_goes_up_after_what_stands_and_its_answer_comes_down(
    served: Served, dial: Any
) -> None:
    """To the one who asked only; taken back, it is taken back upstream."""
    broker, learner = served()
    _, feed = dial(broker.address, b"c/p0/", b"w/p0/", Z)
    eventually(lambda: b"\x01" + Z in learner.receive())
    assert learner.subscriptions[-3:] == [b"\x01c/p0/", b"\x01w/p0/", b"\x01" + Z]
    _, stranger = dial(broker.address, b"w/p0/")
    learner.publish(Z, b"announcement")
    learner.publish(Z, b"weights")
    assert [heard(feed), heard(feed)] == [[Z, b"announcement"], [Z, b"weights"]]
    assert not stranger.poll(0)
    feed.unsubscribe(Z)
    eventually(lambda: b"\x00" + Z in learner.receive())


def test_who_wants_everything_gets_nothing(served: Served, dial: Any) -> None:
    """Neither here nor upstream; an honest listener beside it is served."""
    broker, learner = served()
    greedy = [dial(broker.address, topic)[1] for topic in (b"", b"z/")]
    _, honest = dial(broker.address, Z)
    eventually(lambda: b"\x01" + Z in learner.receive())
    learner.publish(Z, b"secret")
    assert heard(honest) == [Z, b"secret"]
    assert not any(feed.poll(0) for feed in greedy)
    assert not {b"\x01", b"\x01z/"} & set(learner.receive())


def test_one_who_leaves_takes_its_subscriptions_along(served: Served, dial: Any) -> None:
    """A connection that ends counts as an unsubscription, once no other client listens."""
    broker, learner = served()
    _, one = dial(broker.address, b"w/p0/")
    _, other = dial(broker.address, b"w/p0/", Z)
    eventually(lambda: b"\x01" + Z in learner.receive() and broker.status.subscriptions == 5)
    other.close()
    eventually(lambda: b"\x00" + Z in learner.receive())
    assert b"\x00w/p0/" not in learner.subscriptions
    one.close()
    eventually(lambda: b"\x00w/p0/" in learner.receive())


def test_subscriptions_are_repeated_to_a_learner_that_returns(
    served: Served, upstream: Any, dial: Any
) -> None:
    """In byte order, open questions among them, so that it answers who asked its predecessor."""
    broker, learner = served()
    dial(broker.address, b"w/p0/", Z)
    eventually(lambda: b"\x01" + Z in learner.receive())
    learner.close()
    again = upstream(learner.address)
    # On a slow machine the broker may have connected again, and repeated all of them.
    eventually(lambda: len(again.receive()) >= 5)
    assert again.subscriptions[:5] == [
        b"\x01c/",
        b"\x01s/",
        b"\x01t/broker:",
        b"\x01w/p0/",
        b"\x01" + Z,
    ]


def test_a_silent_upstream_is_dialled_anew(served: Served, dial: Any) -> None:
    """After eight seconds, with every subscription.

    What waited is dropped, and what comes later arrives.
    """
    broker, learner = served()
    _, feed = dial(broker.address, b"w/p0/")
    eventually(lambda: b"\x01w/p0/" in learner.receive())
    before = len(learner.subscriptions)
    broker.later = 8.1
    dial(broker.address, b"w/p0/")  # it looks at its clock when something comes
    eventually(lambda: broker.status.upstreams[0].builds == 2)
    eventually(lambda: learner.receive()[before:].count(b"\x01w/p0/") == 1)
    learner.publish(b"w/p0/", b"news")
    assert heard(feed) == [b"w/p0/", b"news"]
    push, _ = dial(broker.address)
    push.send(word("p0"))
    assert learner.take(1) == [word("p0")]
    assert broker.status.upstreams[0].builds == 2


# ---- brokers


def test_its_books_are_on_its_feed(served: Served, dial: Any) -> None:
    """The broker publishes its counters once a second."""
    broker, learner = served(name="gate")
    push, _ = dial(broker.address)
    push.send(word("p0"))
    learner.take(1)
    broker.later = 1.0
    _, feed = dial(broker.address, b"t/")
    topic, frame = heard(feed)
    message = wire.read(wire.open_frame(frame))
    assert isinstance(message, Telemetry)
    document = json.loads(message.document)
    assert topic == topics.broker("gate")
    assert (document["broker"], document["upstreams"][0]["policies"]) == ("gate", ["p0"])
    assert document["received"] == 1


def test_a_chain_is_as_good_as_one(served: Served, broker: Any, dial: Any) -> None:
    """Frames, feeds, questions and unsubscriptions pass through both.

    The far one's books are heard too.
    """
    near, learner = served(name="near")
    far = broker(near.address, name="far")
    push, feed = dial(far.address, Z)
    eventually(lambda: b"\x01" + Z in learner.receive())
    learner.publish(Z, b"answer")
    assert heard(feed) == [Z, b"answer"]
    push.send(word("p0"))
    assert learner.take(1) == [word("p0")]
    feed.unsubscribe(Z)
    eventually(lambda: b"\x00" + Z in learner.receive())
    near.later = 1.0
    _, watcher = dial(far.address, b"t/")
    assert heard(watcher)[0] == topics.broker("near")


@pytest.mark.slow
def test_a_circle_of_brokers_is_named(broker: Any, context: sockets.Context, dial: Any) -> None:
    """Feeds would go round for ever: the broker that hears itself ends with a sentence."""
    with fresh_context() as gone:  # nothing of these sockets is left once it is
        address, *listening = sockets.listen(gone, Address("127.0.0.1", 0, 0), 1)
        for socket in listening:
            socket.close()
    one = broker(address, name="one")
    other = broker(one.address, address=address, name="other")
    one.later = 1.0
    dial(one.address, b"c/")
    failure = eventually(lambda: one.failure or other.failure)
    assert isinstance(failure, ConfigurationError)
    assert "leads back to this broker" in str(failure)


def test_two_learners_of_one_policy_are_named(
    broker: Any, upstream: Any, dial: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The first one keeps the trajectories: one stream is never split."""
    first, second = upstream(), upstream()
    made = broker(first.address, second.address)
    first.named(b"c/p0/", lambda: made.status.upstreams[0].policies)

    def named() -> bool:
        first.publish(b"c/p0/")  # else it is silent on a slow machine, and the second one is obeyed
        return f"{second.address} trains policy p0 too" in caplog.text

    second.named(b"c/p0/", named)
    push, _ = dial(made.address)
    push.send(word("p0"))
    assert first.take(1) == [word("p0")]
    assert not second.pull.poll(0)


def test_a_watcher_is_told_when_nobody_is_behind_a_broker(
    broker: Any, context: sockets.Context
) -> None:
    """The broker's own books are not taken for a learner's."""
    made = broker(Address("127.0.0.1", 1, 2))
    made.later = 1.0
    with pytest.raises(Unhealthy, match=r"a broker answers at .*, but no learner behind it"):
        watch(context, made.address, io.StringIO(), timeout_s=0.2)
