"""The pace at which an owner's connections to a feed are admitted. No sockets, no clock.

When a connection to a feed ends, libzmq walks through all topics of all that stand: 24 ms for 6,000
topics, in which the feed's thread does nothing else. A crowd that is cut and dials again would take
that thread for itself. So an owner waits for admission when its ended connections made much work,
and each waiting connection has its turn. Those that stand wait for nothing.
"""

from collections import deque
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from farflung.common.net.bucket import Bucket

Request = TypeVar("Request")

# Bytes of topics walked through, at once and in the long run: a byte takes some 45 ns, so an owner
# takes 1.5 s at once, and then a third of the thread.
WALKED, WALKED_PER_S = 32 << 20, 8 << 20
# The longest that an owner waits once its last connection has ended. A crowd that ends at once
# counts for far more than this: every end counts all topics that stood, and they end together.
LONGEST_S = 4
# Walked through for a connection in any case: the topics of those that are cut and not gone yet.
LEAST_WALK = 32 << 10
TURN_S = 0.02  # between two connections of an owner that waited
PATIENCE_S = 10.0  # then libzmq has ended the connection: its handshake took too long


class Owner(NamedTuple):
    """The names that a connection is known by: its network, and the label of its key if any."""

    network: str
    label: str = ""


class _Line(Generic[Request]):
    """The connections of one owner that wait, with the times when they came."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[float, Request]] = deque()
        self.next_at = float("-inf")


class Pace(Generic[Request]):
    """Connections that may come now, and those that wait in a line for each owner."""

    def __init__(self) -> None:
        self._walked: dict[str, Bucket] = {}  # by label or network
        self._lines: dict[Owner, _Line[Request]] = {}

    def __len__(self) -> int:
        return sum(len(line.waiting) for line in self._lines.values())

    def ended(self, name: str, topic_bytes: int, now: float) -> None:
        """Note that a connection ended while so many bytes of topics stood."""
        bucket = self._walked.setdefault(name, Bucket(WALKED, now))
        bucket.has_room(now, WALKED_PER_S)
        bucket.level += LEAST_WALK + topic_bytes
        bucket.level = min(bucket.level, WALKED + LONGEST_S * WALKED_PER_S)

    def take(self, owner: Owner, request: Request, now: float) -> bool:
        """Return whether a connection may come at once; otherwise it waits in line."""
        if owner not in self._lines and self._has_room(owner, now):
            return True
        self._lines.setdefault(owner, _Line()).waiting.append((now, request))
        return False

    def due(self, now: float) -> Iterator[Request]:
        """Remove and yield those that have their turn: at most one of each owner in a while."""
        for owner, line in list(self._lines.items()):
            waiting = line.waiting
            while waiting and now - waiting[0][0] >= PATIENCE_S:
                waiting.popleft()
            if waiting and now >= line.next_at and self._has_room(owner, now):
                line.next_at = now + TURN_S
                yield waiting.popleft()[1]
            if not waiting:
                del self._lines[owner]

    def _has_room(self, owner: Owner, now: float) -> bool:
        return all(self._fits(name, now) for name in owner if name in self._walked)

    def _fits(self, name: str, now: float) -> bool:
        bucket = self._walked[name]
        if bucket.is_empty(now, WALKED_PER_S):
            del self._walked[name]
            return True
        return bucket.has_room(now, WALKED_PER_S)
