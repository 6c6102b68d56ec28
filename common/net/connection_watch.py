"""The watch over a listener's connections: it ends those beyond the bounds.

libzmq accepts every connection until the process has no descriptor left, and has no bound for it.
Its socket monitor tells the descriptor of each connection that it accepts and closes.
"""

import logging
import os
import socket
import struct
from collections import Counter, deque
from contextlib import suppress
from itertools import count

import zmq

from farflung.common.net.connections import Connection, Connections, Excess, Peer
from farflung.common.net.sockets import Context, Socket
from farflung.common.process.log import once_every

log = logging.getLogger(__name__)

EVENT = struct.Struct("=Hi")  # an event and its value, as zmq_socket_monitor(3) has them
EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED
BURST = 32  # events between two looks at the bounds: 10,000 connections may come in a second
NAMED = 1000  # owners that the log names once each; then again
SENTENCES = {
    "silent": "%s has most connections that never sent a message: its oldest are closed, "
    "since %d are open and %d may be",
    "share": "%s has most connections: its newest are closed, since %d are open and %d may be",
}


class ConnectionWatch:
    """Follows the monitors of sockets in the authenticator's thread, and ends connections."""

    def __init__(self, context: Context, most: int) -> None:
        self.connections = Connections(most)
        self.ended: Counter[str] = Counter()  # connections, by reason
        self.first_frames: deque[tuple[int, int, str]] = (
            deque()
        )  # put by the listener: see `note_frame`
        self.monitors: list[Socket] = []
        self._context, self._names = context, count(1)
        self._arrived: deque[list[Socket]] = deque()
        self._named: set[tuple[str, str]] = set()
        # A descriptor of our own, which `dup2` lets stand for another one. It needs no free one,
        # and keeps the connection that it stands for from being exchanged meanwhile.
        self._alias, self._unused = socket.socket(), socket.socket()

    # ---- for the listener's thread

    def follow(self, *sockets: Socket) -> None:
        """Watch these sockets instead of those before, which are closed."""
        monitors = []
        for watched in sockets:
            name = f"inproc://connections-{id(self)}-{next(self._names)}"
            monitor = self._context.socket(zmq.PAIR)
            # libzmq waits for room in its I/O thread, so there always is some.
            monitor.set(zmq.RCVHWM, 0)
            monitor.set(zmq.LINGER, 0)
            monitor.connect(name)
            watched.monitor(name, EVENTS)
            monitors.append(monitor)
        self._arrived.append(monitors)

    # ---- for the authenticator's thread

    def read(self, numbered: int) -> None:
        """Take note of what happened, and end what is too much.

        `numbered` is the last number that was given to a connection.
        """
        while self._arrived:
            self._close_monitors()
            self.connections.clear()
            self.monitors = self._arrived.popleft()
        while self._read_burst(numbered):
            pass

    def close(self) -> None:
        """Close what is open here. Nothing is watched any more: libzmq would wait for us."""
        while self._arrived:
            self._close_monitors()
            self.monitors = self._arrived.popleft()
        self._close_monitors()
        self._alias.close()
        self._unused.close()

    def _close_monitors(self) -> None:
        for monitor in self.monitors:
            monitor.close()

    def _read_burst(self, numbered: int) -> bool:
        """Take note of some events, and return whether there may be more."""
        more = False
        for monitor in self.monitors:
            for _ in range(BURST):
                try:
                    event, value = EVENT.unpack(monitor.recv_multipart(zmq.NOBLOCK)[0])
                except zmq.Again:
                    break
                if event == zmq.EVENT_ACCEPTED:
                    self._accept(value, numbered)
                elif event == zmq.EVENT_DISCONNECTED:
                    self.connections.close(value)
            else:
                more = True
        while self.first_frames:
            self.connections.note_frame(*self.first_frames.popleft())
        for excess in self.connections.excess():
            self._end(excess)
        return more

    def _accept(self, descriptor: int, numbered: int) -> None:
        peer = self._stand_for(descriptor)
        self._stand_for_none()
        if peer is not None:
            self.connections.accept(descriptor, peer, numbered)

    def _end(self, excess: Excess) -> None:
        connection = excess.connection
        if self._stand_for(connection.descriptor) == connection.peer:  # else it is another by now
            with suppress(OSError):
                self._alias.shutdown(socket.SHUT_RDWR)  # libzmq closes it
        self._stand_for_none()
        self.ended[excess.reason] += 1
        self._name(connection, excess.reason)

    def _stand_for(self, descriptor: int) -> Peer | None:
        """Let our descriptor stand for a connection; return its peer if it is still there."""
        try:
            os.dup2(descriptor, self._alias.fileno(), inheritable=False)
            peer: Peer = self._alias.getpeername()
        except OSError:
            return None
        return peer

    def _stand_for_none(self) -> None:
        os.dup2(self._unused.fileno(), self._alias.fileno(), inheritable=False)

    def _name(self, connection: Connection, reason: str) -> None:
        if (connection.owner, reason) in self._named:
            return
        if len(self._named) >= NAMED:
            self._named.clear()
        self._named.add((connection.owner, reason))
        connections = self.connections
        silent = reason == "silent"
        log.warning(
            SENTENCES[reason],
            connection.owner,
            connections.silent if silent else len(connections),
            connections.most_silent if silent else connections.most,
            extra=once_every(10),
        )
