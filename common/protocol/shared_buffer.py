"""A bound on what all peers have waiting, shared so that none takes the room of another.

A peer may have as much as is free, as in a network switch with dynamic thresholds: one that takes
all it can has half of the buffer, each of two has a third, and there is always room for one more.
"""

from collections import deque
from typing import NamedTuple

TOTAL_BYTES = 1 << 30  # of messages, from the network until training takes them
AT_ONCE = 256


class Load(NamedTuple):
    """The weight of one message, or of several."""

    peer: int | str
    size: int  # bytes
    rows: int


class _Waiting:
    """The bytes and rows that one peer has waiting."""

    __slots__ = ("rows", "size")

    def __init__(self) -> None:
        self.size = self.rows = 0


NONE = _Waiting()  # of a peer that has nothing; it stays empty


class SharedBuffer:
    """The messages between network and training, by peer. `release` may be called by any thread."""

    def __init__(self, rows: int, size: int = TOTAL_BYTES) -> None:
        self._most_size, self._most_rows = size, rows
        self._peers: dict[int | str, _Waiting] = {}  # those without any are not kept
        self._size = self._rows = 0
        self._released: deque[Load] = deque()

    @property
    def size(self) -> int:
        """Bytes that wait, as of the last message."""
        return self._size

    def has_room(self, peer: int | str, size: int) -> bool:
        """Return whether a peer may have so many bytes more, and any rows."""
        self._book_released()
        waiting = self._peers.get(peer, NONE)
        return (
            waiting.size + size <= self._most_size - self._size
            and waiting.rows < self._most_rows - self._rows
        )

    def spare_rows(self, peer: int | str) -> int:
        """Return the rows that a peer may bring before it has no room, with bytes in proportion."""
        self._book_released()
        waiting = self._peers.get(peer, NONE)
        free_rows = self._most_rows - self._rows - waiting.rows
        free_size = self._most_size - self._size - waiting.size
        return max(0, min(free_rows, free_size * self._most_rows // self._most_size) // 2)

    def add(self, load: Load) -> None:
        """Note a message that came in."""
        waiting = self._peers.get(load.peer)
        if waiting is None:
            waiting = self._peers[load.peer] = _Waiting()
        waiting.size += load.size
        waiting.rows += load.rows
        self._size += load.size
        self._rows += load.rows

    def release(self, load: Load) -> None:
        """Note a message that left."""
        self._released.append(load)

    def _book_released(self) -> None:
        while self._released:
            peer, size, rows = self._released.popleft()
            waiting = self._peers[peer]
            waiting.size -= size
            waiting.rows -= rows
            self._size -= size
            self._rows -= rows
            if not waiting.size and not waiting.rows:
                del self._peers[peer]
