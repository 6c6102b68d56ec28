"""Many actors at one broker: all are served at once, within the memory that it prints."""

import json
import re
import time

import pytest
import zmq
from support.learner_double import LearnerDouble
from support.makers import a_parcel, some_weights
from support.waiting import Deadline, took_at_most

from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.sockets import Sockets
from farflung.common.net import sockets
from farflung.common.net.address import Address, parse_address
from farflung.common.protocol import topics, wire
from farflung.learner.transport.network_thread import NetworkThread

pytestmark = [pytest.mark.faults, pytest.mark.slow]

ACTORS = 64
MEBIBYTE = 1 << 20
FRAME = bytes(
    wire.assemble(
        wire.Kind.PARCEL, {"run": "run-1", "policy": "default", "actor": "box"}, [bytes(60_000)]
    )
)
SLACK_MB = 30.0  # of the allocator, and of buffers that live for a moment
PATIENCE_S = 30.0
WITHIN_S = 10.0  # 2 s are promised to actors on other machines


def started(shell, *words):
    """Start a broker; return it and its address."""
    broker = shell.start("broker", *words, "--port", 0)
    found = broker.says(r"listening: actor (\S+) \(feed on port (\d+)\)")
    return broker, parse_address(found[1], int(found[2]))


def pump(transports, condition):
    """Pump all transports until a condition is true; return how long that took."""
    began, deadline = time.monotonic(), Deadline(PATIENCE_S)
    while not condition():
        assert not deadline.over, "it never happened"
        for transport in transports:
            transport.exchange()
        transports[0].exchange(0.002)
    return time.monotonic() - began


@pytest.fixture
def served(context):
    """A learner without training."""
    double = LearnerDouble(versions=0)
    double.endpoint.queue.room = 1 << 20
    network_thread = NetworkThread(context, Address("127.0.0.1", 0, 0), double.endpoint)
    double.endpoint.publish(some_weights(double.spec))
    network_thread.start()
    yield double, network_thread.address
    network_thread.close()


def test_64_actors_join_a_broker_at_once_and_get_every_acknowledgement(
    shell, context, served, capsys
):
    """Weights for all within seconds, and never more under way than credit allows."""
    double, learner = served
    broker, address = started(shell, learner)
    before = broker.resident_mb()
    transports = [
        Sockets(context, address, PolicyClient("default", f"box-{number}", 1))
        for number in range(ACTORS)
    ]
    try:
        joined_s = pump(
            transports, lambda: all(transport.client.newest.joined for transport in transports)
        )
        parcel = a_parcel()
        for transport in transports:
            for _ in range(10):
                assert transport.client.outbox.offer(parcel, parcel.rows, parcel.size)
        answered_s = pump(
            transports, lambda: all(transport.client.outbox.idle for transport in transports)
        )
    finally:
        for transport in transports:
            transport.close("the test is over", 0.0)
    grown = broker.resident_mb() - before
    with capsys.disabled():
        times = f"weights after {joined_s:.2f} s, 640 acknowledged after {answered_s:.2f} s"
        print(f"\n{ACTORS} at once: {times}; +{grown:.0f} MB", end="")
    assert took_at_most(joined_s, WITHIN_S)
    assert (double.receiver.inbox.ledger.accepted, double.receiver.inbox.lost) == (10 * ACTORS, 0)
    assert grown < SLACK_MB


def test_flood_through_a_broker_stays_within_the_printed_memory(shell, context, capsys):
    """64 connections send 400 MB; its formula allows a third, and it counts what it dropped."""
    learner, pull, feed = sockets.listen(context, Address("127.0.0.1", 0, 0), 1, messages=1)
    broker, address = started(shell, learner, "--queue", 4 * MEBIBYTE)
    queue, messages = map(
        int,
        re.search(
            r"memory: 1 × (\d+) MiB queued, (\d+) messages in the socket of each actor",
            broker.said,
        ).groups(),
    )
    bound = queue + (ACTORS + 1) * messages * len(FRAME) / MEBIBYTE
    senders = [sockets.experience_sender(context, address, 8) for _ in range(ACTORS)]
    with sockets.feed_subscriber(context, address, [topics.broker()]) as books:
        try:

            def served():
                while feed.poll(0):
                    word = feed.recv()
                    feed.set(zmq.SUBSCRIBE if word[:1] == b"\x01" else zmq.UNSUBSCRIBE, word[1:])
                feed.send_multipart((topics.beacon("default"), b""))
                document = (
                    json.loads(wire.read(wire.open_frame(books.recv_multipart()[-1])).document)
                    if books.poll(50)
                    else {}
                )
                return document if document.get("upstreams", [{}])[0].get("policies") else {}

            broker.until(served, "the broker to know the learner of the policy")
            before, most = broker.resident_mb(), 0.0
            for _ in range(100):
                for sender in senders:
                    sender.send(FRAME)
                feed.send_multipart((topics.beacon("default"), b""))  # the learner is not silent
                most = max(most, broker.resident_mb())
            said = broker.until(
                lambda: (found := served()).get("received") == 100 * ACTORS and found,
                "all to come",
            )
            most = max(most, broker.resident_mb()) - before
        finally:
            for socket in (*senders, pull, feed):
                socket.close(linger=0)
    (upstream,) = said["upstreams"]
    with capsys.disabled():
        sent = 100 * ACTORS * len(FRAME) / MEBIBYTE
        memory = f"+{most:.0f} MB of {bound:.0f}"
        print(f"\na flood of {sent:.0f} MB: {memory}, {upstream['dropped']}", end="")
    assert upstream["queued_bytes"] <= queue * MEBIBYTE
    assert upstream["dropped"]["queue full"] > 90 * ACTORS
    assert most < bound + SLACK_MB < 100 * ACTORS * len(FRAME) / MEBIBYTE
