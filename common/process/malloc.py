"""How the C library treats memory that was freed: messages of the same sizes come and go all the time."""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
LARGEST_BYTES = 32 << 20  # that comes from the heap: all that glibc allows
KEPT_BYTES = (
    256 << 20
)  # free at the end of a heap, before it goes back: twice what is in an outbox and in its socket at most


def keep_freed() -> bool:
    """Let this process use freed memory again; gives whether its C library can be told so.

    By default what is freed goes back to the kernel at once, and the next message of that size pays for fresh pages again: more than
    half of what sending 64 KiB costs, and nearly all of what 1 MiB does. glibc learns as much by itself from the first large block freed.
    """
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    return tune is not None and all(
        (tune(M_MMAP_THRESHOLD, LARGEST_BYTES), tune(M_TRIM_THRESHOLD, KEPT_BYTES))
    )
