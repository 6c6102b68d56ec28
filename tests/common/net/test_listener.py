"""The sockets of a listener are new when its feed needs another queue."""

import pytest
import zmq
from support.contexts import ANYWHERE
from support.waiting import eventually

from farflung.common.net import sockets
from farflung.common.net.listener import ROOM, Listener

MEBIBYTE = 1 << 20


@pytest.fixture
def front(context):
    """Return a listener for messages of a byte."""
    front = Listener(context, ANYWHERE, 1)
    yield front
    front.close(linger_ms=0)


def test_a_queue_is_set_for_new_sockets_only(front):
    """Each queue has the length for twice the messages, so that few growths need another."""
    queues = []
    for size in (100, MEBIBYTE, MEBIBYTE // 2, 2 * MEBIBYTE, 3 * MEBIBYTE, 1 << 30, 1 << 31):
        before = front.feed
        front.note_size(size)
        assert front.feed is before
        assert front.look_after(0.0) == (front.feed is not before)
        queues.append(front.feed.get(zmq.SNDHWM))
        assert not front.look_after(0.0)
    assert ROOM == 2
    assert queues == [1000, 128, 128, 128, 42, 16, 16]


def test_clients_find_the_new_sockets(front, context):
    """They reconnect by themselves, and subscribe again."""
    with sockets.feed_subscriber(context, front.address, [b"c/"]) as client:
        for size in (1, MEBIBYTE):
            front.note_size(size)
            front.look_after(0.0)
            eventually(lambda: client.poll(1) or front.feed.poll(10))
            assert front.feed.recv() == b"\x01c/"
