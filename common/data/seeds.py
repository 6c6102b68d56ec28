"""The seed tree: a path names each random stream of a run, so that no two are equal by accident."""

import hashlib
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence


def number(seed: int, *path: int | str) -> int:
    """Return a seed of 63 bits for a foreign generator; the same path has the same seed."""
    return int.from_bytes(_digest(seed, path, 8), "little") >> 1


def generator(seed: int, *path: int | str) -> np.random.Generator:
    """Return a random stream of its own; the same path has the same stream."""
    leaf = _Leaf(seed, path)
    # numpy's annotations do not know that a bit generator takes any `ISeedSequence`
    return np.random.Generator(np.random.PCG64(leaf))  # type: ignore[arg-type]


class _Leaf(ISeedSequence):
    """The end of a path.

    A digest is random enough. Numpy's own mixing would make a stream four times as expensive.
    """

    def __init__(self, seed: int, path: tuple[int | str, ...]) -> None:
        self._seed, self._path = seed, path

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        """Return the initial state of a bit generator."""
        little = np.dtype(dtype).newbyteorder("<")
        return np.frombuffer(
            _digest(self._seed, self._path, n_words * little.itemsize), little
        ).astype(dtype)


def _digest(seed: int, path: tuple[int | str, ...], size: int) -> bytes:
    # int(): numpy's integers have another repr and must name the same stream.
    parts = [part if isinstance(part, str) else int(part) for part in (seed, *path)]
    return hashlib.blake2b(repr(parts).encode(), digest_size=size).digest()
