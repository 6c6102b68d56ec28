"""Tuning of malloc: keep freed memory for the next message of the same size, or return it."""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
LARGEST_BYTES = 32 << 20  # of a block on the heap: glibc's maximum
KEPT_BYTES = 256 << 20  # of free heap: twice the most that an outbox and its socket hold


def keep_freed() -> bool:
    """Keep freed memory in this process; return whether its C library supports that.

    By default freed blocks go back to the kernel at once, and the next message of that size pays
    for fresh pages: more than half of the cost of sending 64 KiB, and nearly all of 1 MiB. glibc
    raises its threshold by itself only after the first large block was freed.
    """
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    return tune is not None and all(
        (tune(M_MMAP_THRESHOLD, LARGEST_BYTES), tune(M_TRIM_THRESHOLD, KEPT_BYTES))
    )


def return_freed() -> bool:
    """Return freed memory to the kernel, after a flood; return whether the C library supports it.

    It takes milliseconds, in which other threads run.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and trim(0) >= 0
