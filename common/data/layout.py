"""The layout of columns in one block of bytes: each begins at a multiple of `ALIGNMENT`."""

from collections.abc import Iterable
from functools import lru_cache

ALIGNMENT = 64  # bytes: a received block can be used where it lies, also by vector instructions
REMEMBERED = 1024  # layouts in the cache: the sizes of an actor's parcels recur


def aligned(offset: int) -> int:
    """Return the first multiple of `ALIGNMENT` at or after an offset."""
    return offset + -offset % ALIGNMENT


def layout(sizes: Iterable[int]) -> tuple[tuple[int, ...], int]:
    """Return the offset of each column of these sizes in bytes, and the length of the block."""
    return _layout(tuple(sizes))


@lru_cache(REMEMBERED)
def _layout(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    offsets, end = [], 0
    for size in sizes:
        offsets.append(aligned(end))
        end = offsets[-1] + size
    return tuple(offsets), end
