"""Memory for large batches that is kept: fresh pages cost more than the copy of the rows."""

import math
import sys

import numpy as np

LEAST_BYTES = 1 << 20  # of an array: malloc has smaller ones at hand
MOST = 8  # blocks: those of a few batches, as an algorithm keeps some while others are sampled


class Kept:
    """Blocks of memory, each lent again once nothing refers to it.

    A view of an array, or a tensor that shares its memory, refers to it: an algorithm that keeps
    either keeps the block. So no batch ever changes, as if each had memory of its own.
    """

    def __init__(self) -> None:
        self._blocks: list[np.ndarray] = []
        probe = [np.empty(0, np.uint8)]
        self._unused = sys.getrefcount(probe[0])  # references to a block that is only in the list

    def lend(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
        """Return an array `[*shape]` with any content; None for a small one, or if all are lent."""
        size = math.prod(shape) * dtype.itemsize
        if size < LEAST_BYTES:
            return None
        block = self._find(size)
        return None if block is None else block[:size].view(dtype).reshape(shape)

    def _find(self, size: int) -> np.ndarray | None:
        """Return a block that nothing refers to, of this size or up to twice as large."""
        unused = [
            place
            for place in range(len(self._blocks))
            if sys.getrefcount(self._blocks[place]) == self._unused
        ]
        for place in unused:
            if size <= len(self._blocks[place]) <= 2 * size:
                return self._blocks[place]
        if len(self._blocks) == MOST:
            if not unused:
                return None
            del self._blocks[unused[0]]  # of a size that is not asked for any more
        self._blocks.append(np.empty(size, np.uint8))
        return self._blocks[-1]
