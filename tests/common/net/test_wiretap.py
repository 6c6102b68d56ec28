"""The network between a client and a server: with keys its reader learns and changes nothing."""

import socket
import threading
from contextlib import suppress

import pytest
import zmq
from support.waiting import eventually, readable

from farflung.common.net import keys, sockets
from farflung.common.net.address import Address
from farflung.common.net.listener import Listener

ANYWHERE = Address("127.0.0.1", 0, 0)
MARK = b"a sentence for the server alone" * 4
QUIET_S = 0.5  # in which a message would have come


class Wire:
    """A road between both that keeps all bytes from the client, and may change one of them."""

    def __init__(self, port):
        self.heard, self.changes = b"", False
        self._port, self._sockets = port, []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                near = self._listening.accept()[0]
                far = socket.create_connection(("127.0.0.1", self._port))
                self._sockets += [near, far]
                threading.Thread(target=self._pass, args=(near, far, True), daemon=True).start()
                threading.Thread(target=self._pass, args=(far, near, False), daemon=True).start()

    def _pass(self, here, there, from_client):
        with suppress(OSError):
            while data := here.recv(1 << 16):
                if from_client:
                    self.heard += data
                    if self.changes:
                        data = data[:-1] + bytes([data[-1] ^ 1])
                there.sendall(data)
            there.shutdown(socket.SHUT_WR)

    def close(self):
        self._listening.close()
        for each in self._sockets:
            each.close()


@pytest.fixture
def tapped(context, keys_folder):
    """Makes a server, a wire to it, and a client that dials through the wire."""
    made = []

    def make(with_keys):
        server = Listener(
            context, ANYWHERE, 1, keys=keys.server_keys(keys_folder) if with_keys else None
        )
        wire = Wire(server.address.port)
        held = keys.client_keys(keys_folder) if with_keys else None
        through = Address("127.0.0.1", wire.port, server.address.feed_port)
        push = sockets.experience_sender(context, through, keys=held)
        made.extend((wire, server))
        made.append(push)
        return server, wire, push

    yield make
    for each in made:
        each.close(linger=0) if isinstance(each, zmq.Socket) else each.close()


@pytest.mark.parametrize("with_keys", [False, True])
def test_reader_of_the_network_sees_no_content_where_there_are_keys(tapped, with_keys):
    """Without keys the same reader sees all of it."""
    server, wire, push = tapped(with_keys)
    push.send(MARK)
    assert readable(server.pull)
    assert server.pull.recv() == MARK
    assert len(wire.heard) > len(MARK)
    assert (MARK[:8] in wire.heard) is not with_keys


@pytest.mark.slow
@pytest.mark.parametrize("with_keys", [False, True])
def test_message_that_was_changed_on_its_way_arrives_only_without_keys(tapped, with_keys):
    """With keys it ends its connection."""
    server, wire, push = tapped(with_keys)
    push.send(MARK)
    assert readable(server.pull)
    assert server.pull.recv() == MARK
    wire.changes = True
    push.send(MARK)
    arrived = bool(server.pull.poll(QUIET_S * 1000)) and server.pull.recv() != MARK
    assert arrived is not with_keys


@pytest.mark.slow
def test_connection_that_is_replayed_delivers_nothing(tapped):
    """Each connection has keys of its own, so the bytes of an old one are worth nothing."""
    server, wire, push = tapped(True)
    push.send(MARK)
    assert readable(server.pull)
    assert server.pull.recv() == MARK
    push.close(linger=0)
    with socket.create_connection(("127.0.0.1", server.address.port)) as again:
        again.sendall(wire.heard)
        again.settimeout(QUIET_S)
        with suppress(OSError):
            eventually(lambda: not again.recv(1 << 16), "the server to hang up")
        assert not server.pull.poll(QUIET_S * 1000)
