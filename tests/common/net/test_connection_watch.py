"""The watch over connections, on real sockets: those beyond the bounds end, the others live."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support.contexts import ANYWHERE, fresh_context
from support.waiting import eventually, readable

from farflung.common.net import keys, sockets
from farflung.common.net.listener import Listener
from farflung.common.process import descriptors

MOST = 20
CROWD = 5 * MOST


@pytest.fixture(params=[False, True], ids=["open", "keys"])
def front(request, context, keys_folder, monkeypatch) -> Iterator[Listener]:
    """A listener that may have 20 connections, half of them silent."""
    monkeypatch.setattr(descriptors, "for_connections", lambda: MOST)
    held = keys.server_keys(keys_folder) if request.param else None
    front = Listener(context, ANYWHERE, 1, keys=held)
    front.client = keys.client_keys(keys_folder) if request.param else None
    yield front
    front.close()


def ended(connection: socket.socket) -> bool:
    """Return whether the other side has closed a connection."""
    connection.settimeout(0)
    try:
        while received := connection.recv(4096):  # the greeting
            assert received
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


def test_silent_connections_are_bounded_and_a_client_that_speaks_is_served(front, caplog):
    """The one that spoke before the crowd, and one that comes while the crowd is there."""
    place = front.address.host, front.address.port
    with fresh_context() as context, ExitStack() as stack:
        early = sockets.experience_sender(context, front.address, keys=front.client)
        early.send(b"before")
        assert readable(front.pull)
        before = front.sender(front.pull.recv(copy=False))
        crowd = [stack.enter_context(socket.create_connection(place)) for _ in range(CROWD)]
        watch = front.authenticator.watch
        eventually(lambda: sum(map(ended, crowd)) >= CROWD - MOST // 2)
        late = sockets.experience_sender(context, front.address, keys=front.client)
        late.send(b"meanwhile")
        assert readable(front.pull)
        assert front.sender(front.pull.recv(copy=False)).connection != before.connection
        early.send(b"still")
        assert readable(front.pull)
        assert front.sender(front.pull.recv(copy=False)) == before
        assert sum(map(ended, crowd)) < CROWD
        assert watch.ended["silent"] >= CROWD - MOST // 2
        assert caplog.text.count("never sent a message") == 1


def test_client_with_too_many_connections_loses_its_own(context, keys_folder, monkeypatch, caplog):
    """All of them speak, so their key is known; the connection of another key stays."""
    monkeypatch.setattr(descriptors, "for_connections", lambda: MOST)
    keys.make(keys_folder, "mallory")
    front = Listener(context, ANYWHERE, 1, keys=keys.server_keys(keys_folder))
    with fresh_context() as theirs, ExitStack() as stack:
        stack.callback(front.close)
        robot = sockets.experience_sender(
            theirs, front.address, keys=keys.client_keys(keys_folder / "actor.key")
        )
        robot.send(b"first")
        assert readable(front.pull)
        first = front.sender(front.pull.recv(copy=False))
        mallory = keys.client_keys(keys_folder / "mallory.key")
        for _ in range(2 * MOST):
            sockets.experience_sender(theirs, front.address, keys=mallory).send(b"me too")
        watch = front.authenticator.watch

        def bounded() -> bool:
            while front.pull.poll(0):
                front.sender(front.pull.recv(copy=False))
            return watch.ended["share"] >= MOST and len(watch.connections) <= MOST

        eventually(bounded)
        robot.send(b"still the same connection")
        heard = set()
        eventually(
            lambda: (
                front.pull.poll(0)
                and not heard.add(front.sender(front.pull.recv(copy=False)).connection)
                and first.connection in heard
            )
        )
        assert "mallory has most connections: its newest are closed" in caplog.text
        assert "actor has most" not in caplog.text


def test_connections_that_ended_are_forgotten(front):
    """So a client that comes and goes never meets a bound."""
    watch = front.authenticator.watch
    with fresh_context() as context:
        for _ in range(MOST + 5):
            push = sockets.experience_sender(context, front.address, keys=front.client)
            push.send(b"hello")
            assert readable(front.pull)
            front.sender(front.pull.recv(copy=False))
            push.close()
            eventually(lambda: not len(watch.connections))
    assert not watch.ended


def test_watch_holds_no_connection_open(front):
    """A peer that libzmq hangs up on sees the end of its connection at once."""
    place = front.address.host, front.address.port
    with socket.create_connection(place) as connection:
        eventually(lambda: len(front.authenticator.watch.connections))
        connection.sendall(b"GET / HTTP/1.1\r\nHost: learner\r\n\r\n" * 4)
        eventually(lambda: ended(connection))
