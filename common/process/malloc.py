"""Tuning of malloc: keep freed memory for the next message of the same size, or return it."""

import ctypes
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
LARGEST_BYTES = 32 << 20  # of a block on the heap: glibc's maximum
KEPT_BYTES = 256 << 20  # of free heap: twice the most that an outbox and its socket hold


def keep_freed() -> bool:
    """Keep freed memory in this process; return whether its C library supports that.

    By default freed blocks go back to the kernel at once, and the next message of that size pays
    for fresh pages: more than half of the cost of sending 64 KiB, and nearly all of 1 MiB. glibc
    raises its threshold by itself only after the first large block was freed.
    """
    tune = _function("mallopt")
    return tune is not None and all(
        (tune(M_MMAP_THRESHOLD, LARGEST_BYTES), tune(M_TRIM_THRESHOLD, KEPT_BYTES))
    )


def return_freed() -> bool:
    """Return freed memory to the kernel, after a flood; return whether the C library supports it.

    It takes milliseconds, in which other threads run.
    """
    trim = _function("malloc_trim")
    return trim is not None and trim(0) >= 0


def _function(name: str) -> Any:
    """Return a function of this process's C library, or None."""
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except TypeError:  # Windows has no library of the whole process
        return None
