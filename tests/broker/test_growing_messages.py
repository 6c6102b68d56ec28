"""Clients come and go while a broker's messages become longer."""

from collections.abc import Callable
from typing import Any

import pytest
from support.waiting import eventually

from farflung.common.net import sockets

Served = Callable[..., Any]
TOPIC, ROUNDS, CLIENTS, MESSAGES, LONG = b"c/p0/", 20, 10, 200, 1 << 20


@pytest.mark.slow
def test_clients_that_go_end_no_broker(served: Served, context: sockets.Context) -> None:
    """Each longer message once set all queues, and libzmq sent that to pipes it had freed.

    So this test ended its process by a signal.
    """
    broker, learner = served()
    size = 1
    for _ in range(ROUNDS):
        clients = [
            sockets.feed_subscriber(context, broker.address, [TOPIC]) for _ in range(CLIENTS)
        ]
        for client in clients:
            while not client.poll(1):
                learner.publish(TOPIC, b"x" * size)
        for client in clients:
            client.close(linger=0)
        for _ in range(MESSAGES):
            size += 1
            learner.publish(TOPIC, b"x" * size)
            learner.feed.poll(0)
    assert broker.failure is None


def test_longer_messages_get_a_shorter_queue(
    served: Served, context: sockets.Context, caplog: pytest.LogCaptureFixture
) -> None:
    """A client gets the message for which the queue is too long, and then the later ones."""
    caplog.set_level("INFO")
    broker, learner = served()
    client = sockets.feed_subscriber(context, broker.address, [TOPIC])
    heard: list[int] = []

    def hears(size: int) -> bool:
        while client.poll(10):
            heard.append(len(client.recv_multipart()[1]))
        return size in heard

    with client:
        eventually(lambda: learner.publish(TOPIC) or hears(0))
        learner.publish(TOPIC, b"x" * LONG)
        eventually(lambda: hears(LONG))
        eventually(lambda: "shorter queue" in caplog.text)
        eventually(lambda: learner.publish(TOPIC, b"later") or hears(5))
