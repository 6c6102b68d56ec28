"""The places of columns in a block of bytes: one after the other, each at a multiple of 64."""

from collections.abc import Iterable
from functools import lru_cache

ALIGNMENT = 64  # bytes: a received block can be used where it lies, also by vector instructions
PADDING = bytes(ALIGNMENT)  # at most, before a column
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


@lru_cache(REMEMBERED)
def paddings(sizes: tuple[int, ...]) -> tuple[tuple[bytes, ...], int]:
    """Return the padding before each column of these sizes, and the length of the block."""
    offsets, length = layout(sizes)
    ends = [0, *(offset + size for offset, size in zip(offsets, sizes, strict=True))]
    return tuple(PADDING[: at - end] for at, end in zip(offsets, ends, strict=False)), length
