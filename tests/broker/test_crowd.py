"""A broker between the transports of real actors and a real network thread."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.learner_double import LearnerDouble
from support.makers import a_parcel, some_weights
from support.waiting import Deadline

from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.sockets import Sockets
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.protocol.roster import Presence
from farflung.learner.transport.network_thread import NetworkThread


class Learner:
    """A learner without training."""

    def __init__(self, context: sockets.Context) -> None:
        self.double = LearnerDouble(versions=0)
        self.queue = self.double.endpoint.queue
        self.queue.room = 1 << 20
        self.network_thread = NetworkThread(
            context, Address("127.0.0.1", 0, 0), self.double.endpoint
        )
        self.double.endpoint.publish(some_weights(self.double.spec))
        self.network_thread.start()


@pytest.fixture
def learner(context: sockets.Context) -> Iterator[Learner]:
    """Return a learner that listens."""
    learner = Learner(context)
    yield learner
    learner.network_thread.close()


@pytest.fixture
def crowd(context: sockets.Context) -> Iterator[Callable[[Address, int], list[Sockets]]]:
    """Return a function that opens the transports of so many actors."""
    transports: list[Sockets] = []

    def join(address: Address, count: int) -> list[Sockets]:
        transports.extend(
            Sockets(context, address, PolicyClient("default", f"box-{number}", 1))
            for number in range(count)
        )
        return transports

    yield join
    for transport in transports:
        transport.close("the test is over", 0.0)


def pump(transports: list[Sockets], condition: Callable[[], Any], within_s: float = 30.0) -> float:
    """Exchange messages until a condition holds; return the seconds that took."""
    start, deadline = time.monotonic(), Deadline(within_s)
    while not condition():
        assert not deadline.over, "it never happened"
        for transport in transports:
            transport.exchange()
        transports[0].exchange(0.001)
    return time.monotonic() - start


def offer(transports: list[Sockets], count: int) -> None:
    """Offer so many parcels at each actor."""
    parcel = a_parcel()
    for transport in transports:
        for _ in range(count):
            assert transport.client.outbox.offer(parcel, parcel.rows, parcel.size)


def settled(transports: list[Sockets]) -> bool:
    """Return whether every parcel is acknowledged."""
    return all(transport.client.outbox.idle for transport in transports)


@pytest.mark.slow
@pytest.mark.parametrize("brokers", [1, 2])
def test_many_who_join_at_once_all_get_weights_and_acknowledgements(
    brokers: int, learner: Learner, broker: Any, crowd: Any
) -> None:
    """64 actors share the pipe of one broker, or of a chain.

    None is left out, and nothing is lost or counted twice.
    """
    address = learner.network_thread.address
    for _ in range(brokers):
        address = broker(address).address
    transports = crowd(address, 64)
    joined_s = pump(
        transports, lambda: all(transport.client.newest.joined for transport in transports)
    )
    offer(transports, 5)
    answered_s = pump(transports, lambda: settled(transports))
    print(
        f"{brokers} in a chain: 64 joined within {joined_s:.2f} s, "
        f"320 parcels were acknowledged within {answered_s:.2f} s"
    )
    assert {member.index for member in learner.double.receiver.roster} == set(range(64))
    assert {member.presence(time.monotonic()) for member in learner.double.receiver.roster} == {
        Presence.ACTIVE
    }
    ledger = learner.double.receiver.inbox.ledger
    assert (ledger.accepted, learner.double.receiver.inbox.lost) == (320, 0)
    assert all(transport.client.outbox.ledger.balanced for transport in transports)


@pytest.mark.slow
def test_a_broker_may_go_and_come_back(learner: Learner, broker: Any, crowd: Any) -> None:
    """The parcels in it are lost with it and sent again: each counts once."""
    first = broker(learner.network_thread.address)
    transports = crowd(first.address, 4)
    pump(transports, lambda: all(transport.client.newest.joined for transport in transports))
    for _ in range(3):
        offer(transports, 20)
        pump(transports, lambda: learner.double.receiver.inbox.ledger.received > 0)
        first.ended()
        offer(transports, 20)
        for transport in transports:
            transport.exchange()
        first = broker(learner.network_thread.address, address=first.address)
        took_s = pump(transports, lambda: settled(transports))
        print(f"everything was acknowledged {took_s:.2f} s after the broker was back")
    ledger = learner.double.receiver.inbox.ledger
    assert (ledger.accepted, learner.double.receiver.inbox.lost) == (3 * 4 * 40, 0)
    assert all(transport.client.outbox.ledger.balanced for transport in transports)
