"""The account of a listener's connections and its bounds, without sockets or clock.

A connection is silent until its first message or subscription, so a peer without a key is always
silent. At most half of all connections may be. Beyond that the oldest silent one goes, of the
network that has most of them: a client sends something within milliseconds. Beyond all of them the
newest one goes, of the client that has most; without keys a network counts as a client.
"""

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

Peer = tuple[Any, ...]  # as `socket.getpeername` returns it
IPV6_SITE = 4  # groups of an IPv6 address that one owner has


class Handed:
    """The messages of a connection that were handed to us, counted by the thread that reads."""

    __slots__ = ("_earlier", "_earlier_messages", "messages", "rebate", "size")

    def __init__(self) -> None:
        self.size = self.messages = 0  # of the reading thread; all others are the watch's
        self.rebate = 0  # bytes of which the watch knows that they do not wait: no content
        self._earlier = self._earlier_messages = 0

    def go_on(self, earlier: "Handed") -> None:
        """Count from an earlier count of the same connection on."""
        self._earlier, self._earlier_messages = earlier.total, earlier.total_messages
        self.rebate = earlier.rebate

    @property
    def total(self) -> int:
        """The bytes of all messages."""
        return self._earlier + self.size

    @property
    def total_messages(self) -> int:
        """The number of all messages."""
        return self._earlier_messages + self.messages


class Connection(NamedTuple):
    """An accepted connection, by its descriptor in this process."""

    descriptor: int
    peer: Peer
    numbered: int  # the last number of a connection when it was accepted; its own is higher
    owner: str  # the network while it is silent, then the client
    handed: Handed | None = None  # once it is not silent


class Excess(NamedTuple):
    """A connection to end, and the reason."""

    connection: Connection
    reason: str


class Connections:
    """The open connections of a listener, by owner, and those beyond the bounds."""

    def __init__(self, most: int) -> None:
        self.most, self.most_silent = most, most // 2
        self._open: dict[int, Connection] = {}
        self._silent = _Groups()
        self._active = _Groups()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._open.values()))

    @property
    def silent(self) -> int:
        """The number of connections without a message so far."""
        return self._silent.count

    def accept(self, descriptor: int, peer: Peer, numbered: int) -> Connection:
        """Note a new connection, and return it."""
        self.close(descriptor)  # its end was cut short
        connection = Connection(descriptor, peer, numbered, network(str(peer[0])))
        self._open[descriptor] = connection
        self._silent.add(connection)
        return connection

    def close(self, descriptor: int) -> Connection | None:
        """Note the end of a connection; return it if it was known."""
        connection = self._open.pop(descriptor, None)
        if connection is not None:
            self._silent.discard(connection)
            self._active.discard(connection)
        return connection

    def find(self, descriptor: int) -> Connection | None:
        """Return the connection that a descriptor stands for, if it is open."""
        return self._open.get(descriptor)

    def note_frame(self, descriptor: int, number: int, client: str, handed: Handed) -> bool:
        """Note the first frame of a numbered connection, its client and its count from now on.

        A frame may be older than the connection that has its descriptor now. Return whether this
        one was silent before.
        """
        connection = self._open.get(descriptor)
        if connection is None or number <= connection.numbered:
            return False
        self.close(descriptor)
        before = connection.handed
        if before is not None:  # the count begins again: its sender was forgotten meanwhile
            handed.go_on(before)
        active = connection._replace(owner=client or connection.owner, handed=handed)
        self._open[descriptor] = active
        self._active.add(active)
        return before is None

    def clear(self) -> None:
        """Forget all connections: their sockets were closed."""
        self._open, self._silent, self._active = {}, _Groups(), _Groups()

    def excess(self) -> Iterator[Excess]:
        """Remove and return the connections beyond the bounds."""
        for connection in self._silent.largest(self.silent - self.most_silent, oldest=True):
            self.close(connection.descriptor)
            yield Excess(connection, "silent")
        for connection in self._active.largest(len(self) - self.most, oldest=False):
            self.close(connection.descriptor)
            yield Excess(connection, "share")


class _Groups:
    """Connections by owner, in the order in which they came."""

    def __init__(self) -> None:
        self.count = 0
        self._members: dict[str, OrderedDict[int, Connection]] = {}

    def add(self, connection: Connection) -> None:
        members = self._members.setdefault(connection.owner, OrderedDict())
        members[connection.descriptor] = connection
        self.count += 1

    def discard(self, connection: Connection) -> None:
        members = self._members.get(connection.owner)
        if members is None or members.get(connection.descriptor) is not connection:
            return
        del members[connection.descriptor]
        self.count -= 1
        if not members:
            del self._members[connection.owner]

    def largest(self, number: int, *, oldest: bool) -> list[Connection]:
        """Return so many connections, each of the owner that has most at its turn."""
        if number <= 0:
            return []
        ways = {
            owner: iter(members.values()) if oldest else reversed(members.values())
            for owner, members in self._members.items()
        }
        heap = [(-len(members), owner) for owner, members in self._members.items()]
        heapq.heapify(heap)
        chosen = []
        for _ in range(min(number, self.count)):
            size, owner = heap[0]
            chosen.append(next(ways[owner]))
            heapq.heapreplace(heap, (size + 1, owner))
        return chosen


def network(address: str) -> str:
    """Return the part of an address that one owner has: all of IPv4, half of IPv6."""
    groups = address.partition("%")[0].split(":")
    if len(groups) < 2 or "." in groups[-1]:
        return groups[-1]
    head, gap, tail = address.partition("%")[0].partition("::")
    front, back = head.split(":") if head else [], tail.split(":") if tail else []
    zeros = ["0"] * (8 - len(front) - len(back)) if gap else []
    return ":".join((front + zeros + back)[:IPV6_SITE]) + "::"
