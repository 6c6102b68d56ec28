"""The encodings of a column's bytes: none, or lz4 where the spec allows it."""

from collections.abc import Callable

from farflung.common.process.errors import Refused

LZ4_RATIO = 255  # no block of lz4 unpacks to more than so many times its bytes


def _compress(block: bytes | memoryview) -> bytes:
    import lz4.block  # only actors and learners have it, and only images use it

    packed: bytes = lz4.block.compress(block, store_size=False)
    return packed


def _decompress(block: memoryview, size: int) -> bytes:
    """Return at most `size` bytes, known from the receiver's spec before memory is taken."""
    import lz4.block

    if size > LZ4_RATIO * len(block):
        raise Refused("encoding", f"{len(block)} compressed bytes cannot hold {size}")
    try:
        unpacked: bytes = lz4.block.decompress(block, uncompressed_size=size)
    except (lz4.block.LZ4BlockError, ValueError, OverflowError, MemoryError) as error:
        raise Refused("encoding", "a compressed column cannot be read") from error
    return unpacked


ENCODE: dict[str, Callable[[bytes | memoryview], bytes | memoryview]] = {
    "": lambda block: block,
    "lz4": _compress,
}
DECODE: dict[str, Callable[[memoryview, int], bytes | memoryview]] = {
    "": lambda block, size: block,
    "lz4": _decompress,
}
