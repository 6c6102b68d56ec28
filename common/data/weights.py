"""Versioned weights: the state dict that the acting graph takes, in one block of bytes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from farflung.common.data.spec import Tensor

if TYPE_CHECKING:
    import numpy as np  # not loaded for those who only relay

LAYOUTS = 1024  # that are remembered: an actor's parcels recur in size
ALIGNMENT = 64  # of every column in a message, so that a received block can be used where it lies


class Version(NamedTuple):
    """A publication: comparable within a run, never a bare number, since a rollback can repeat one."""

    epoch: int  # how often the learner started within this run
    number: int  # how often it published

    def __str__(self) -> str:
        return f"{self.epoch}.{self.number}"


@dataclass(frozen=True, slots=True)
class Weights:
    """One published version. The block is at once the columns of its message and the graph's external data."""

    run: str
    policy: str
    version: Version
    steps: int  # environment steps so far; exploration follows it
    updates: int  # gradient steps so far
    tensors: tuple[Tensor, ...]
    block: bytes | bytearray | memoryview

    @property
    def arrays(self) -> "dict[str, np.ndarray]":
        """The state dict, as views into the block."""
        import numpy as np

        offsets, _ = layout(tensor.size for tensor in self.tensors)
        return {
            tensor.name: np.ndarray(tensor.shape, tensor.dtype, self.block, offset)
            for tensor, offset in zip(self.tensors, offsets, strict=True)
        }


def layout(sizes: Iterable[int]) -> tuple[tuple[int, ...], int]:
    """Where each column of so many bytes begins in a block, and how long the block is."""
    return _layout(tuple(sizes))


@lru_cache(LAYOUTS)
def _layout(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    offsets, end = [], 0
    for size in sizes:
        start = end + -end % ALIGNMENT
        offsets.append(start)
        end = start + size
    return tuple(offsets), end


def pack(tensors: tuple[Tensor, ...], arrays: "Mapping[str, np.ndarray]") -> bytearray:
    """The block of a state dict."""
    import numpy as np

    offsets, total = layout(tensor.size for tensor in tensors)
    block = bytearray(total)
    for tensor, offset in zip(tensors, offsets, strict=True):
        np.ndarray(tensor.shape, tensor.dtype, block, offset)[...] = arrays[tensor.name]
    return block
