"""Messages with tensors as columns, each under its own name: weights and gradients."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec import Struct

from farflung.common.data.fields import LARGEST, Name, Natural, Positive
from farflung.common.data.layout import layout
from farflung.common.data.magnitudes import require_within
from farflung.common.data.parcel import Results
from farflung.common.data.pool import Pool
from farflung.common.data.spec import RESULT, Column, Tensor, digest, line, sizes
from farflung.common.data.weights import Version, Weights, cut
from farflung.common.process.errors import Refused
from farflung.common.protocol import packing
from farflung.common.protocol.messages import Numbered
from farflung.common.protocol.packing import from_plain, to_plain
from farflung.common.protocol.parcels import RESULTS
from farflung.common.protocol.wire import Kind, Opened, assemble, read_table


class WeightsEnvelope(Struct, frozen=True, forbid_unknown_fields=True):
    """A version and what it stands for."""

    run: Name
    policy: Name
    version: Version
    steps: Natural  # environment steps so far
    updates: Natural  # gradient steps so far
    pool: Pool | None  # the opponents from this version on; left out where there is none


def encode_weights(weights: Weights) -> bytearray:
    """Return the frame of a version: every tensor is a column under its own name."""
    envelope = {name: getattr(weights, name) for name in WeightsEnvelope.__struct_fields__}
    pool = envelope.pop("pool")
    if pool is not None:
        envelope["pool"] = to_plain(pool)
    block = memoryview(weights.block)
    return assemble(Kind.WEIGHTS, envelope, (block,), _tensor_table(weights.tensors))


def read_weights(opened: Opened, tensors: tuple[Tensor, ...]) -> Weights:
    """Return the version, if its columns are exactly the tensors of the acting graph.

    The block is the received bytes.
    """
    if opened.kind is not Kind.WEIGHTS:
        raise Refused("kind", f"{opened.kind.name} is not expected here")
    envelope = from_plain(WeightsEnvelope, {"pool": None} | opened.envelope)
    _, total = layout(tensor.size for tensor in tensors)
    if len(opened.data) != total or (
        opened.table != _tensor_table(tensors) and read_table(opened) != _tensor_rows(tensors)
    ):
        raise Refused("columns", "the weights are not those of the acting graph")
    found = {name: getattr(envelope, name) for name in WeightsEnvelope.__struct_fields__}
    return Weights(**found, tensors=tensors, block=opened.data)


class GradientsEnvelope(Numbered, frozen=True, forbid_unknown_fields=True):
    """The envelope of gradients."""

    version: Version  # of the weights that they are taken at
    schema: str  # of the tensors
    round: Natural  # of the sync mode; 0 outside of it
    samples: Positive  # rows that the gradients are the mean over
    steps: Natural  # environment steps that the worker took since its message before
    norm: float  # of all gradients together, before anything is clipped
    metrics: dict[str, float]  # of the loss and of priorities, by name


@dataclass(frozen=True)
class Gradients:
    """Named gradients of one worker, and the episodes that it finished since its message before."""

    envelope: GradientsEnvelope
    arrays: Mapping[str, np.ndarray]  # one of each tensor's shape and dtype
    results: Results = field(default_factory=Results)

    @property
    def rows(self) -> int:
        """Rows that they are the mean over."""
        return self.envelope.samples

    @property
    def size(self) -> int:
        """Return the bytes of the arrays, close enough to the message's for bounds."""
        return sum(array.nbytes for array in self.arrays.values())


def read_gradients_envelope(opened: Opened) -> GradientsEnvelope:
    """Return the sender of gradients, their number, and what they are taken at."""
    if opened.kind is not Kind.GRADIENTS:
        raise Refused("kind", f"{opened.kind.name} is not expected here")
    return from_plain(GradientsEnvelope, opened.envelope)


class GradientsCodec:
    """Gradients of one list of tensors as bytes, both ways, with results and their metrics."""

    def __init__(
        self,
        tensors: tuple[Tensor, ...],
        result_extras: tuple[Column, ...] = (),
        largest: float = LARGEST,
    ) -> None:
        self._largest = largest
        self.schema = digest(
            [
                *(line("tensor", t.dtype, sizes(t.shape), t.name) for t in tensors),
                *(line("column", c.per, c.dtype, sizes(c.shape), c.name) for c in result_extras),
            ]
        )
        self._tensors, self._results = tensors, (*RESULTS, *result_extras)
        self._metrics = [extra.name.removeprefix(RESULT) for extra in result_extras]

    def encode(self, gradients: Gradients) -> bytearray:
        """Return the frame of gradients, tensors first and results last."""
        results = gradients.results
        tensors = self._columns(len(results.returns))
        arrays = [gradients.arrays[tensor.name] for tensor in self._tensors]
        arrays += results.columns(self._metrics)
        columns = [
            np.ascontiguousarray(array, tensor.dtype).tobytes()
            for tensor, array in zip(tensors, arrays, strict=True)
        ]
        envelope = to_plain(gradients.envelope)
        return assemble(Kind.GRADIENTS, envelope, columns, _tensor_table(tensors))

    def decode(self, opened: Opened, envelope: GradientsEnvelope) -> Gradients:
        """Return gradients of exactly the receiver's tensors, as views into the received bytes."""
        if envelope.schema != self.schema:
            raise Refused("schema", f"{envelope.schema}, and this learner's is {self.schema}")
        table = read_table(opened)
        tensors = self._columns(_episodes(table, len(opened.data)))
        _, total = layout(tensor.size for tensor in tensors)
        if table != _tensor_rows(tensors) or len(opened.data) != total:
            raise Refused("columns", "the gradients are not those of the learner's tensors")
        columns = cut(tensors, opened.data)
        arrays = dict(zip((t.name for t in self._tensors), columns, strict=False))
        returns, lengths, *metrics = columns[len(arrays) :]
        self._require_finite(envelope, arrays, returns)
        results = Results(returns, lengths, dict(zip(self._metrics, metrics, strict=True)))
        results.require_bounded()
        return Gradients(envelope, arrays, results)

    def _columns(self, episodes: int) -> tuple[Tensor, ...]:
        """Return the tensors, then those of the results of so many episodes."""
        return self._tensors + tuple(
            Tensor(column.name, column.dtype, (episodes,)) for column in self._results
        )

    def _require_finite(
        self, envelope: GradientsEnvelope, arrays: Mapping[str, np.ndarray], returns: np.ndarray
    ) -> None:
        if not all(map(math.isfinite, (envelope.norm, *envelope.metrics.values()))):
            raise Refused("nonfinite", "the norm or a metric is NaN or infinity")
        for name, array in arrays.items():
            require_within(array, self._largest, name)
        require_within(returns, math.inf, "result_returns")  # they have a bound of their own


def _episodes(table: Any, most: int) -> int:
    """Return how many results a table claims: the length of its last column."""
    try:
        (episodes,) = table[-1][2]
    except (TypeError, ValueError, LookupError):
        episodes = None
    if type(episodes) is not int or not 0 <= episodes <= most:
        raise Refused("columns", "the results do not name their number")
    return episodes


def _tensor_table(tensors: tuple[Tensor, ...]) -> bytes:
    return packing.pack(_tensor_rows(tensors))


def _tensor_rows(tensors: tuple[Tensor, ...]) -> list[list[Any]]:
    """Return the table of tensors that follow each other."""
    offsets, _ = layout(tensor.size for tensor in tensors)
    return [
        [t.name, t.dtype, list(t.shape), offset, t.size, ""]
        for t, offset in zip(tensors, offsets, strict=True)
    ]
