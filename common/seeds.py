"""One seed tree: every random stream of a run is named by a path, so that no two of them are ever the same by accident."""

import hashlib

import numpy as np


def number(seed: int, *path: int | str) -> int:
    """A seed of 63 bits for somebody else's generator: the same for the same path."""
    return _digest(seed, path, 8) >> 1


def generator(seed: int, *path: int | str) -> np.random.Generator:
    """A random stream of its own: the same for the same path."""
    return np.random.Generator(np.random.PCG64(_digest(seed, path, 16)))


def _digest(seed: int, path: tuple[int | str, ...], size: int) -> int:
    # int(): numpy's integers are written differently and must name the same stream.
    parts = [part if isinstance(part, str) else int(part) for part in (seed, *path)]
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=size).digest(), "little")
