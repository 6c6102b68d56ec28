"""The kernel's bound on the bytes of a connection, on real sockets."""

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from farflung.common.net import ceiling

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")

SENT, MOST, PACKET = 4 << 20, 1 << 20, 64 << 10


@pytest.fixture(params=["127.0.0.1", "::1"])
def ends(request) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection to a prepared socket: the one that sends, and the other."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server((request.param, 0), family=family))
        ceiling.prepare(listening.fileno())
        sender = stack.enter_context(socket.create_connection(listening.getsockname()[:2]))
        yield sender, stack.enter_context(listening.accept()[0])


def test_bytes_beyond_the_bound_come_once_it_is_raised(ends):
    """Until then none of them is read; then all are there, in their order."""
    sender, receiver = ends
    first = ceiling.first_byte(receiver)
    assert first is not None
    ceiling.bound(receiver, first, MOST)
    content, came = bytes(range(256)) * (SENT // 256), bytearray()

    def read(most):
        while len(came) < most and (more := receiver.recv(PACKET)):
            came.extend(more)
        return len(came)

    sending = threading.Thread(target=sender.sendall, args=(content,))
    sending.start()
    assert read(MOST - PACKET) <= MOST + PACKET
    receiver.settimeout(0.5)  # longer than TCP waits until it repeats
    with pytest.raises(TimeoutError):
        read(MOST + 2 * PACKET)
    assert len(came) <= MOST + PACKET
    receiver.settimeout(60)
    ceiling.bound(receiver, first, 2 * MOST)
    assert read(2 * MOST - PACKET) <= 2 * MOST + PACKET
    ceiling.unbound(receiver)
    assert read(SENT) == SENT
    sending.join(60)
    assert came == content


def test_connection_of_an_unprepared_socket_has_no_known_first_byte():
    """So it stays without a bound."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert ceiling.first_byte(accepted) is None
