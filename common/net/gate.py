"""The gate of a feed: it reads subscriptions, has its owner decide, and cuts what floods.

libzmq offers no way to end one connection of a socket. It does tell which descriptor a frame came
through, so the gate shuts that down, and libzmq cleans up as if the peer had gone.
"""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple, Protocol

import zmq

from farflung.common.net.keys import Client
from farflung.common.net.listener import Listener
from farflung.common.net.shares import Account, Holder, Shares
from farflung.common.process import malloc
from farflung.common.process.errors import Refused

log = logging.getLogger(__name__)

SUBSCRIBE, UNSUBSCRIBE = b"\x01", b"\x00"
READ_MESSAGES = 1024  # in one go, so that beacons are never late
GONE_S = 0.2  # between two looks for connections that ended
FREED_BYTES = 64 << 10  # of topics that went, before memory is returned: some 4 MiB of it
CUT = "subscriptions"  # the reason under which a cut counts


class Owner(Protocol):
    """The side of a feed that knows its topics."""

    def subscribed(self, topic: bytes, sender: Client) -> bool:
        """Return whether a sender may have a topic, or refuse it; called for repetitions too."""

    def unsubscribed(self, topic: bytes, sender: Client) -> None:
        """Note that a connection no longer has a topic that was agreed to. Called once."""

    def is_known(self, topic: bytes) -> bool:
        """Return whether a private topic is of an actor that takes part."""

    def refuse(self, refusal: Refused) -> None:
        """Count and report a refusal."""


class Gate:
    """Reads a feed's subscriptions, and keeps account of each connection's."""

    def __init__(self, listener: Listener, owner: Owner, shares: Shares, now: float) -> None:
        self._listener, self._owner, self._shares = listener, owner, shares
        self._account = Account(shares, owner.is_known, now)
        self._places: dict[int, _Place] = {}  # by number of the connection
        # The newest connection of each place: a frame may be older than the one at its descriptor.
        self._newest: dict[_Place, int] = {}
        self._looked_at, self._gone = now, False
        self._freed = 0  # bytes of topics that went since memory was returned

    def receive(self, now: float) -> None:
        """Read what is here, up to a bound."""
        feed, watch = self._listener.feed, self._listener.authenticator.watch
        watch.topic_bytes = self._account.size
        for _ in range(READ_MESSAGES):
            try:
                frame = feed.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                watch.drained_feed += 1
                self._look(now)  # with nothing unread of those that ended
                return
            self._take(frame, now)

    def reset(self, now: float) -> None:
        """Note that the listener has new sockets: no connection is left."""
        for holder in self._account.holders.values():
            self._drop(holder)
        self._account = Account(self._shares, self._owner.is_known, now)
        self._places.clear()
        self._newest.clear()

    def _take(self, frame: zmq.Frame, now: float) -> None:
        sender, data = self._listener.sender(frame), frame.bytes
        word, topic = data[:1], data[1:]
        if sender is None or not sender.connection:
            self._gone = True  # libzmq's report that a connection is over, or one that is revoked
            if sender is None and word == SUBSCRIBE:
                self._owner.refuse(Refused("revoked", "its key is not allowed any more"))
            return
        holder = self._account.holders.get(sender.connection)
        if holder is None:
            holder = self._account.open(sender, now)
            self._settle(sender.connection, _Place.of(frame))
        if holder.is_cut or not self._fits(holder, topic if word == SUBSCRIBE else b"", now):
            return
        if word == SUBSCRIBE and self._agrees(topic, sender):
            holder.topics[topic] = True
            self._listener.feed.set(zmq.SUBSCRIBE, topic)  # of the connection of this frame
        elif word == UNSUBSCRIBE and self._account.remove(holder, topic):
            self._listener.feed.set(zmq.UNSUBSCRIBE, topic)
            self._owner.unsubscribed(topic, sender)

    def _fits(self, holder: Holder, topic: bytes, now: float) -> bool:
        """Note a message and its new topic, and cut what is too much; return if it is not this."""
        if topic:
            self._account.add(holder, topic, now)
        fits = True
        for heavy, reason in self._account.excess(holder, now):
            self._cut(heavy, reason)
            fits &= heavy is not holder
        return fits

    def _agrees(self, topic: bytes, sender: Client) -> bool:
        try:
            return self._owner.subscribed(topic, sender)
        except Refused as refusal:
            self._owner.refuse(refusal)
            return False

    def _cut(self, holder: Holder, reason: str) -> None:
        """End a connection; an honest client comes back within a second."""
        holder.is_cut = True
        self._drop(holder)
        client = holder.client
        if self._is_open(client.connection):
            self._places[client.connection].shut()
        who = f"key {client.label} at {client.address}" if client.label else client.address
        self._owner.refuse(Refused(CUT, f"{who} has {reason}: its connection was cut"))

    def _drop(self, holder: Holder) -> None:
        self._freed += holder.size
        for topic in self._account.drop(holder):
            self._owner.unsubscribed(topic, holder.client)

    def _look(self, now: float) -> None:
        """Forget the connections that ended, sooner if libzmq reported that one did."""
        if now - self._looked_at < (GONE_S if self._gone else 5 * GONE_S):
            return
        self._looked_at, self._gone = now, False
        if self._freed >= FREED_BYTES:
            self._freed = 0
            malloc.return_freed()
        for number in list(self._ended()):
            self._drop(self._account.holders.pop(number))
            place = self._places.pop(number)
            if self._newest.get(place) == number:
                del self._newest[place]

    def _ended(self) -> Iterator[int]:
        return (number for number in self._places if not self._is_open(number))

    def _settle(self, number: int, place: "_Place") -> None:
        self._places[number] = place
        self._newest[place] = max(number, self._newest.get(place, 0))

    def _is_open(self, number: int) -> bool:
        place = self._places[number]
        return self._newest.get(place) == number and place.is_open()


class _Place(NamedTuple):
    """The descriptor of a connection, with the socket's own number: descriptors come again."""

    descriptor: int
    socket: int

    @classmethod
    def of(cls, frame: zmq.Frame) -> "_Place":
        """Return the place that a frame came through, as it is now."""
        descriptor = int(frame.get(zmq.SRCFD))
        return cls(descriptor, _inode(descriptor))

    def is_open(self) -> bool:
        """Return whether the connection stands."""
        return self.socket != 0 and _inode(self.descriptor) == self.socket

    def shut(self) -> None:
        """End the connection. libzmq, which owns the descriptor, notices and closes it."""
        with suppress(OSError), socket.socket(fileno=os.dup(self.descriptor)) as own:
            own.shutdown(socket.SHUT_RDWR)


def _inode(descriptor: int) -> int:
    try:
        return os.fstat(descriptor).st_ino
    except OSError:
        return 0  # closed
