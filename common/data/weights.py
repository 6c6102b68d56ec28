"""Weights and their versions: the acting graph's state dict in one block of bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from farflung.common.data.fields import Natural
from farflung.common.data.layout import layout
from farflung.common.data.spec import Tensor

if TYPE_CHECKING:
    import numpy as np  # a broker does not load it

    from farflung.common.data.pool import Pool


class Version(NamedTuple):
    """One publication of weights. Versions of one run compare; a bare number would not.

    A learner that is resumed can repeat a number, but its epoch is higher. On the wire and on
    disk a version is the array `[epoch, number]`.
    """

    epoch: Natural  # how many times the run's learner was started
    number: Natural  # how many times it published in this epoch

    def __str__(self) -> str:
        return f"{self.epoch}.{self.number}"


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
    pool: "Pool | None" = None  # the opponents from this version on; None: none but itself

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
