"""Real actors' links and a real learner's link with a broker between them, which may go and come
back.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.learner_double import LearnerDouble
from support.makers import a_parcel, some_weights

from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.sockets import Sockets
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.protocol.roster import Presence
from farflung.learner.transport.network_thread import NetworkThread


class School:
    """A learner without training."""

    def __init__(self, context: sockets.Context) -> None:
        self.side = LearnerDouble(versions=0)
        self.queue = self.side.endpoint.queue
        self.queue.room = 1 << 20
        self.link = NetworkThread(context, Address("127.0.0.1", 0, 0), self.side.endpoint)
        self.side.endpoint.publish(some_weights(self.side.spec))
        self.link.start()


@pytest.fixture
def school(context: sockets.Context) -> Iterator[School]:
    """A learner that listens."""
    school = School(context)
    yield school
    school.link.close()


@pytest.fixture
def crowd(context: sockets.Context) -> Iterator[Callable[[Address, int], list[Sockets]]]:
    """So many actors at an address."""
    links: list[Sockets] = []

    def join(address: Address, count: int) -> list[Sockets]:
        links.extend(
            Sockets(context, address, PolicyClient("default", f"box-{number}", 1))
            for number in range(count)
        )
        return links

    yield join
    for link in links:
        link.close("the test is over", 0.0)


def pump(links: list[Sockets], condition: Callable[[], Any], within_s: float = 30.0) -> float:
    """Look after all links until it is so; gives how long that took."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < within_s, "it never happened"
        for link in links:
            link.exchange()
        links[0].exchange(0.001)
    return time.monotonic() - start


def offer(links: list[Sockets], count: int) -> None:
    """So many parcels of each."""
    parcel = a_parcel()
    for link in links:
        for _ in range(count):
            assert link.client.outbox.offer(parcel, parcel.rows, parcel.size)


def settled(links: list[Sockets]) -> bool:
    """Whether everybody's parcels are acknowledged."""
    return all(link.client.outbox.idle for link in links)


@pytest.mark.slow
@pytest.mark.parametrize("brokers", [1, 2])
def test_many_who_join_at_once_all_get_weights_and_acknowledgements(
    brokers: int, school: School, broker: Any, crowd: Any
) -> None:
    """64 actors share the pipe of one broker, or of a chain.

    None is left out, and nothing is lost or counted twice.
    """
    address = school.link.address
    for _ in range(brokers):
        address = broker(address).address
    links = crowd(address, 64)
    joined_s = pump(links, lambda: all(link.client.newest.joined for link in links))
    offer(links, 5)
    answered_s = pump(links, lambda: settled(links))
    print(
        f"{brokers} in a chain: 64 joined within {joined_s:.2f} s, "
        f"320 parcels were acknowledged within {answered_s:.2f} s"
    )
    assert {member.index for member in school.side.receiver.roster} == set(range(64))
    assert {member.presence(time.monotonic()) for member in school.side.receiver.roster} == {
        Presence.ACTIVE
    }
    ledger = school.side.receiver.inbox.ledger
    assert (ledger.accepted, school.side.receiver.inbox.lost) == (320, 0)
    assert all(link.client.outbox.ledger.balanced for link in links)


@pytest.mark.slow
def test_a_broker_may_go_and_come_back(school: School, broker: Any, crowd: Any) -> None:
    """What was in it is lost with it, and sent again: everything is counted once."""
    first = broker(school.link.address)
    links = crowd(first.address, 4)
    pump(links, lambda: all(link.client.newest.joined for link in links))
    for _ in range(3):
        offer(links, 20)
        pump(links, lambda: school.side.receiver.inbox.ledger.received > 0)
        first.ended()
        offer(links, 20)
        for link in links:
            link.exchange()
        first = broker(school.link.address, address=first.address)
        took_s = pump(links, lambda: settled(links))
        print(f"everything was acknowledged {took_s:.2f} s after the broker was back")
    ledger = school.side.receiver.inbox.ledger
    assert (ledger.accepted, school.side.receiver.inbox.lost) == (3 * 4 * 40, 0)
    assert all(link.client.outbox.ledger.balanced for link in links)
