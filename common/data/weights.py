"""Versioned weights: the acting graph's state dict in one block of bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from farflung.common.data.spec import Tensor, layout
from farflung.common.data.version import Version

if TYPE_CHECKING:
    import numpy as np  # a broker does not load it


@dataclass(frozen=True, slots=True)
class Weights:
    """One published version.

    The block is both the columns of its message and the graph's external data.
    """

    run: str
    policy: str
    version: Version
    steps: int  # environment steps so far; exploration depends on it
    updates: int  # gradient steps so far
    tensors: tuple[Tensor, ...]
    block: bytes | bytearray | memoryview

    @property
    def arrays(self) -> "dict[str, np.ndarray]":
        """Return the state dict, as views into the block."""
        names = (tensor.name for tensor in self.tensors)
        return dict(zip(names, cut(self.tensors, self.block), strict=True))


def pack(tensors: tuple[Tensor, ...], arrays: "Mapping[str, np.ndarray]") -> bytearray:
    """Return the block of a state dict."""
    import numpy as np

    offsets, total = layout(tensor.size for tensor in tensors)
    block = bytearray(total)
    for tensor, offset in zip(tensors, offsets, strict=True):
        np.ndarray(tensor.shape, tensor.dtype, block, offset)[...] = arrays[tensor.name]
    return block


def cut(tensors: tuple[Tensor, ...], block: bytes | bytearray | memoryview) -> "list[np.ndarray]":
    """Return the tensors that lie in a block, as views."""
    import numpy as np

    offsets, _ = layout(tensor.size for tensor in tensors)
    return [
        np.ndarray(tensor.shape, tensor.dtype, block, offset)
        for tensor, offset in zip(tensors, offsets, strict=True)
    ]
