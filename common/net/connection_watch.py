"""The watch over a listener's connections: it ends those beyond the bounds.

libzmq accepts every connection until the process has no descriptor left, and has no bound for it.
Its socket monitor tells the descriptor of each connection that it accepts and closes.
"""

import fcntl
import logging
import os
import socket
import struct
import termios
import time
from collections import Counter, deque
from contextlib import suppress
from itertools import count
from typing import NamedTuple

import zmq

from farflung.common.net import ceiling
from farflung.common.net.connections import Connection, Connections, Excess, Handed, Peer
from farflung.common.net.intake import Intake
from farflung.common.net.pace import TURN_S, Pace
from farflung.common.net.sockets import Context, Socket, readable
from farflung.common.process.log import once_every

log = logging.getLogger(__name__)

EVENT = struct.Struct("=Hi")  # an event and its value, as zmq_socket_monitor(3) has them
EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
BURST = 32  # events between two looks at the bounds: 10,000 connections may come in a second
INFO = struct.Struct("=128xQ")  # bytes received, in the `tcp_info` of Linux 4.1 and later
UNREAD = struct.Struct("=i")  # bytes among them that are still in the kernel
LOOK_S, LOOK_PART = 0.05, 0.02  # between two looks at what was received; their part of the time
# Bytes by which the kernel's bound is raised at least; those of a connection that brings much,
# and the seconds until it is raised again: what is dropped comes late, and slowly for a while.
RAISED, MUCH, BUSY_S = 1 << 20, 6 << 20, 0.01
CALM_S = 2.0  # without much until bounds are raised less often: the next burst may be as fast
NAMED = 1000  # owners that the log names once each; then again
SENTENCES = {
    "silent": "%s has most connections that never sent a message: its oldest are closed, "
    "since %d are open and %d may be",
    "share": "%s has most connections: its newest are closed, since %d are open and %d may be",
    "topics": "%s subscribes faster than subscriptions are read: its connection is closed",
    "unread": "%s has most bytes that were not read: its connection is closed",
    "unfinished": "%s sends a message without an end: its connection is closed",
}


class Ceiling(NamedTuple):
    """The bound of a connection that the kernel keeps."""

    first: int  # the sequence number of its first byte
    most: int  # bytes


class ConnectionWatch:
    """Follows the monitors of sockets in the authenticator's thread, and ends connections."""

    def __init__(self, context: Context, most: int) -> None:
        self.connections = Connections(most)
        self.ended: Counter[str] = Counter()  # connections, by reason
        # Put by the listener: see `note_frame`.
        self.first_frames: deque[tuple[int, int, str, Handed]] = deque()
        self.monitors: list[Socket] = []  # that of a feed is the last one
        self.pace: Pace[list[bytes]] = Pace()  # of connections to the feed
        self.topic_bytes = 0  # that stand at the feed, put by its gate
        # How often all messages of each socket had been read, counted by who reads them.
        self.drained = self.drained_feed = 0
        self._context, self._names = context, count(1)
        self._arrived: deque[list[Socket]] = deque()
        self._named: set[tuple[str, str]] = set()
        self._intake, self._looks_at = Intake(), 0.0
        self._at_feed: set[int] = set()  # descriptors
        self._ceilings: dict[int, Ceiling] = {}  # where messages come in, by descriptor
        self._raises_at, self._calm_at = 0.0, float("-inf")
        self._is_busy = False
        self._unheard = 0  # connections to the feed after their handshake, before their first frame
        # A descriptor of our own, which `dup2` lets stand for another one. It needs no free one,
        # and keeps the connection that it stands for from being exchanged meanwhile.
        self._alias, self._unused = socket.socket(), socket.socket()

    # ---- for the listener's thread

    def allow(self, largest: int) -> None:
        """Let one message have so many bytes. Call it before there are connections."""
        self._intake = Intake(largest)

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

    @property
    def unread_bytes(self) -> int:
        """Bytes of messages that were not read, at the last look."""
        return self._intake.messages

    # ---- for the authenticator's thread

    @property
    def turn_s(self) -> float:
        """The longest time between two readings."""
        return BUSY_S if self._is_busy else TURN_S if len(self.pace) else LOOK_S

    def read(self, numbered: int, now: float) -> None:
        """Take note of what happened, and end what is too much.

        `numbered` is the last number that was given to a connection.
        """
        while self._arrived:
            self._close_monitors()
            self.connections.clear()
            self._at_feed.clear()
            self._ceilings.clear()
            self._unheard = 0
            self.monitors = self._arrived.popleft()
        while self._read_burst(numbered, now):
            pass
        if now >= self._looks_at:
            began_s = time.thread_time()
            self._look(now)
            spent_s = time.thread_time() - began_s  # a machine that is busy with others counts not
            self._looks_at = now + max(LOOK_S, spent_s / LOOK_PART)
        if now >= self._raises_at:
            began_s = time.thread_time()
            if self._raise():
                self._calm_at = now + CALM_S
            self._is_busy = now < self._calm_at
            spent_s = time.thread_time() - began_s
            self._raises_at = now + max(self.turn_s, spent_s / LOOK_PART)

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

    def _read_burst(self, numbered: int, now: float) -> bool:
        """Take note of some events, and return whether there may be more."""
        more = False
        for monitor in self.monitors:
            for _ in range(BURST):
                if not readable(monitor):
                    break
                event, value = EVENT.unpack(monitor.recv_multipart(zmq.NOBLOCK)[0])
                of_feed = monitor is self.monitors[-1]
                if event == zmq.EVENT_ACCEPTED:
                    self._accept(value, numbered, of_feed)
                elif event == zmq.EVENT_DISCONNECTED:
                    self._close(value, of_feed, now)
                else:
                    self._unheard += of_feed
            else:
                more = True
        while self.first_frames:
            found = self.first_frames.popleft()
            if self.connections.note_frame(*found):
                self._unheard -= found[0] in self._at_feed
        for excess in self.connections.excess():
            self._end(excess, now)
        return more

    def _accept(self, descriptor: int, numbered: int, of_feed: bool) -> None:
        peer = self._stand_for(descriptor)
        first = None if of_feed or peer is None else ceiling.first_byte(self._alias)
        known = self.connections.find(descriptor)
        # Each monitor has its own order: an event of the other socket may be older than a
        # connection that has the descriptor by now. No two at a time have the same peer.
        if peer is not None and (known is None or known.peer != peer):
            connection = self.connections.accept(descriptor, peer, numbered)
            (self._at_feed.add if of_feed else self._at_feed.discard)(descriptor)
            self._ceilings.pop(descriptor, None)
            if first is not None:
                self._bound(connection, first)
        self._stand_for_none()

    def _close(self, descriptor: int, of_feed: bool, now: float) -> None:
        """Note the end of a connection, unless the other socket has one by that number by now."""
        if (descriptor in self._at_feed) == of_feed:
            self._walk(self.connections.close(descriptor), now)

    def _bound(self, connection: Connection, first: int) -> None:
        """Let the kernel drop what libzmq could not be kept from holding, between two looks."""
        most = self._intake.most(connection)
        ceiling.bound(self._alias, first, most)
        self._ceilings[connection.descriptor] = Ceiling(first, most)

    def _raise(self) -> bool:
        """Raise bounds by what was read; return if a connection brings much."""
        much = False
        for descriptor, known in list(self._ceilings.items()):
            connection = self.connections.find(descriptor)
            if connection is None or connection.handed is None:
                continue
            more = self._intake.most(connection) - known.most
            much = much or more >= MUCH
            if more >= RAISED:
                if self._stand_for(descriptor) == connection.peer:
                    self._bound(connection, known.first)
                self._stand_for_none()
        return much

    def _walk(self, connection: Connection | None, now: float) -> None:
        """Note the work that the end of a connection to the feed is, after its handshake."""
        if connection is None or connection.descriptor not in self._at_feed:
            return
        self._at_feed.remove(connection.descriptor)
        is_silent = connection.handed is None
        if not is_silent or self._unheard > 0:
            self._unheard -= is_silent
            self.pace.ended(connection.owner, self.topic_bytes + self._intake.topics, now)

    def _look(self, now: float) -> None:
        """End the connections of which libzmq holds too much."""
        drained, drained_feed = self.drained, self.drained_feed
        at_feed: dict[Connection, int] = {}
        others: dict[Connection, int] = {}
        for connection in self.connections:
            if (size := received(connection.descriptor)) is not None:
                of = at_feed if connection.descriptor in self._at_feed else others
                of[connection] = size
        found = list(self._intake.excess_of_topics(at_feed, drained_feed))
        for excess in found + list(self._intake.excess_of_messages(others, drained)):
            if self.connections.find(excess.connection.descriptor) == excess.connection:
                self.connections.close(excess.connection.descriptor)
                self._end(excess, now)

    def _end(self, excess: Excess, now: float) -> None:
        connection = excess.connection
        self._walk(connection, now)
        self._ceilings.pop(connection.descriptor, None)
        if self._stand_for(connection.descriptor) == connection.peer:  # else it is another by now
            ceiling.unbound(self._alias)
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
        figures = {
            "silent": (connections.silent, connections.most_silent),
            "share": (len(connections), connections.most),
        }.get(reason, ())
        log.warning(SENTENCES[reason], connection.owner, *figures, extra=once_every(10))


def received(descriptor: int) -> int | None:
    """Return the bytes that libzmq took from the kernel for a connection; None if it is none."""
    try:
        # Naming family and kind spares calls that find them out.
        seen = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, descriptor)
    except OSError:
        return None
    try:
        # First the number that grows: what is taken meanwhile must not count twice.
        taken = INFO.unpack(seen.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO.size))[0]
        unread = UNREAD.unpack(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(UNREAD.size)))[0]
        return int(taken) - int(unread)
    except (OSError, struct.error):
        return None
    finally:
        seen.detach()  # it is libzmq's
