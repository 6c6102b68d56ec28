"""One seed tree: every random stream of a run is named by a path, so that no two of them are ever the same by accident."""

import hashlib
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence


def number(seed: int, *path: int | str) -> int:
    """A seed of 63 bits for somebody else's generator: the same for the same path."""
    return int.from_bytes(_digest(seed, path, 8), "little") >> 1


def generator(seed: int, *path: int | str) -> np.random.Generator:
    """A random stream of its own: the same for the same path."""
    return np.random.Generator(np.random.PCG64(_Leaf(seed, path)))  # type: ignore[arg-type]  # numpy's annotations forget this interface


class _Leaf(ISeedSequence):
    """The end of a path. A digest is random enough as it is: numpy's own mixing would make a stream four times as expensive."""

    def __init__(self, seed: int, path: tuple[int | str, ...]) -> None:
        self._seed, self._path = seed, path

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        """So many words for a bit generator."""
        little = np.dtype(dtype).newbyteorder("<")
        return np.frombuffer(
            _digest(self._seed, self._path, n_words * little.itemsize), little
        ).astype(dtype)


def _digest(seed: int, path: tuple[int | str, ...], size: int) -> bytes:
    # int(): numpy's integers are written differently and must name the same stream.
    parts = [part if isinstance(part, str) else int(part) for part in (seed, *path)]
    return hashlib.blake2b(repr(parts).encode(), digest_size=size).digest()
