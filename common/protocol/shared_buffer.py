"""A bound on what all peers have waiting, shared so that none takes the room of another.

A peer may have as much as is free, as in a network switch with dynamic thresholds: one that takes
all it can has half of the buffer, each of two has a third, and there is always room for one more.
"""

from collections import deque
from typing import NamedTuple

TOTAL_BYTES = 1 << 30  # of messages, from the network until training takes them
AT_ONCE = 64  # parcels of the most rows that may be, likewise


class Load(NamedTuple):
    """The weight of one message, or of several."""

    peer: int | str
    size: int  # bytes
    rows: int


class SharedBuffer:
    """The messages between network and training, by peer. `release` may be called by any thread."""

    def __init__(self, rows: int, size: int = TOTAL_BYTES) -> None:
        self._most_size, self._most_rows = size, rows
        self._loads: dict[int | str, Load] = {}  # by peer; those without any are not kept
        self._size = self._rows = 0
        self._released: deque[Load] = deque()

    @property
    def size(self) -> int:
        """Bytes that wait, as of the last message."""
        return self._size

    def has_room(self, peer: int | str, size: int) -> bool:
        """Return whether a peer may have so many bytes more, and any rows."""
        self._book_released()
        load = self._loads.get(peer) or Load(peer, 0, 0)
        free_size, free_rows = self._most_size - self._size, self._most_rows - self._rows
        return load.size + size <= free_size and load.rows < free_rows

    def spare_rows(self, peer: int | str) -> int:
        """Return the rows that a peer may bring before it has no room, with bytes in proportion."""
        self._book_released()
        load = self._loads.get(peer) or Load(peer, 0, 0)
        free_rows = self._most_rows - self._rows - load.rows
        free_size = self._most_size - self._size - load.size
        return max(0, min(free_rows, free_size * self._most_rows // self._most_size) // 2)

    def add(self, load: Load) -> None:
        """Note a message that came in."""
        self._add(load, 1)

    def release(self, load: Load) -> None:
        """Note a message that left."""
        self._released.append(load)

    def _book_released(self) -> None:
        while self._released:
            self._add(self._released.popleft(), -1)

    def _add(self, load: Load, sign: int) -> None:
        former = self._loads.get(load.peer) or Load(load.peer, 0, 0)
        size, rows = former.size + sign * load.size, former.rows + sign * load.rows
        self._size, self._rows = self._size + sign * load.size, self._rows + sign * load.rows
        self._loads[load.peer] = Load(load.peer, size, rows)
        if not size and not rows:
            del self._loads[load.peer]
