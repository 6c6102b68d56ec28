"""Messages whose columns are tensors, each under its own name: weights."""

from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from farflung.common.data.fields import Name, Natural
from farflung.common.data.layout import layout
from farflung.common.data.spec import Tensor
from farflung.common.data.version import Version
from farflung.common.data.weights import Weights
from farflung.common.process.errors import Refused
from farflung.common.protocol import packing
from farflung.common.protocol.plain import from_flat
from farflung.common.protocol.wire import Kind, Opened, assemble, read_table


class WeightsEnvelope(Struct, frozen=True, forbid_unknown_fields=True):
    """A version and what it stands for."""

    run: Name
    policy: Name
    version: Version
    steps: Natural  # environment steps so far
    updates: Natural  # gradient steps so far


def encode_weights(weights: Weights) -> bytearray:
    """Return the frame of a version: every tensor is a column under its own name."""
    envelope = {name: getattr(weights, name) for name in WeightsEnvelope.__struct_fields__}
    block = memoryview(weights.block)
    return assemble(Kind.WEIGHTS, envelope, (block,), _tensor_table(weights.tensors))


def read_weights(opened: Opened, tensors: tuple[Tensor, ...]) -> Weights:
    """Return the version, if its columns are exactly the tensors of the acting graph.

    The block is the received bytes.
    """
    if opened.kind is not Kind.WEIGHTS:
        raise Refused("kind", f"{opened.kind.name} is not expected here")
    envelope = from_flat(WeightsEnvelope, opened.envelope)
    _, total = layout(tensor.size for tensor in tensors)
    if len(opened.data) != total or (
        opened.table != _tensor_table(tensors) and read_table(opened) != _tensor_rows(tensors)
    ):
        raise Refused("columns", "the weights are not those of the acting graph")
    return Weights(**asdict(envelope), tensors=tensors, block=opened.data)


def _tensor_table(tensors: tuple[Tensor, ...]) -> bytes:
    return packing.pack(_tensor_rows(tensors))


def _tensor_rows(tensors: tuple[Tensor, ...]) -> list[list[Any]]:
    """Return the table of tensors that follow each other."""
    offsets, _ = layout(tensor.size for tensor in tensors)
    return [
        [t.name, t.dtype, list(t.shape), offset, t.size, ""]
        for t, offset in zip(tensors, offsets, strict=True)
    ]
