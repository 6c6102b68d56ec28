"""Parcels as bytes and back: everything that arrives is checked against the receiver's own spec."""

import math
from typing import Any

import numpy as np

from common.encoding import DECODE, ENCODE
from common.errors import Refused
from common.spec import ACTIONS, Spec
from common.trajectory import Column, Ending, Parcel, Results
from common.weights import ALIGNMENT, layout
from common.wire import MAX_MESSAGE_BYTES, Envelope, Kind, Opened, assemble

COUNTS = (Column("lengths", "int32", (), "trajectory"), Column("endings", "uint8", (), "trajectory"))
RESULTS = (Column("result_returns", "float64", (), "trajectory"), Column("result_lengths", "int32", (), "trajectory"))

UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


class ParcelFormat:
    """The parcels of one policy as bytes, both ways. What the spec says of columns is worked out once."""

    def __init__(self, spec: Spec) -> None:
        self._schema, self._horizon, self._stack = spec.schema, spec.horizon, spec.stack
        self._columns = [_Expected(column, spec.compression.get(column.name, "")) for column in spec.columns]
        self._counts = [_Expected(column, "") for column in COUNTS]
        self._results = [_Expected(column, "") for column in RESULTS]
        spaces = [*zip((column.name for column in spec.observations), spec.observation.values(), strict=True), (ACTIONS, spec.action)]
        self._choices = [(name, space) for name, space in spaces if space.sizes]

    def encode(self, envelope: Envelope, parcel: Parcel) -> bytearray:
        """The frame of a parcel. Its bytes are made once, at the first send, and never change."""
        arrays = [] if parcel.evaluation else [(expected, parcel.columns[expected.name]) for expected in self._columns]
        arrays += zip(self._counts, (parcel.lengths, parcel.endings), strict=True)
        arrays += zip(self._results, (parcel.results.returns, parcel.results.lengths), strict=True)
        blocks = [ENCODE[expected.encoding](expected.block(array)) for expected, array in arrays]
        offsets, _ = layout(map(len, blocks))
        table = [
            [expected.name, expected.column.dtype, array.shape, offset, len(block), expected.encoding]
            for (expected, array), offset, block in zip(arrays, offsets, blocks, strict=True)
        ]
        header = {
            "run": envelope.run,
            "policy": envelope.policy,
            "actor": envelope.actor,
            "incarnation": envelope.incarnation,
            "sequence": envelope.sequence,
            "base": envelope.base,
            "epoch": envelope.epoch,
            "version": envelope.version,
            "schema": envelope.schema,
            "evaluation": parcel.evaluation,
            "columns": table,
        }
        return assemble(Kind.PARCEL, header, blocks)

    def decode(self, opened: Opened, envelope: Envelope) -> Parcel:
        """The parcel, as views into the received bytes, after everything about it was checked against the receiver's own spec."""
        if envelope.schema != self._schema:
            raise Refused("schema", f"{envelope.schema}, and this learner's is {self._schema}")
        evaluation = opened.header.get("evaluation") is True
        columns = [] if evaluation else self._columns
        table, data = opened.header.get("columns"), opened.data
        if not isinstance(table, list) or len(table) != len(columns) + 4:
            raise Refused("columns", "not the columns of the spec")
        counts, scores = table[len(columns) : -2], table[-2:]
        count, finished = _claimed(counts[0]), _claimed(scores[0])
        lengths, endings = (expected.take(row, data, count) for expected, row in zip(self._counts, counts, strict=True))
        returns, episodes = (expected.take(row, data, finished) for expected, row in zip(self._results, scores, strict=True))
        if evaluation != (count == 0):
            raise Refused("lengths", "rows in an evaluation, or none in a parcel")
        if count and not (_below(lengths - 1, self._horizon) and _below(endings, len(Ending))):
            raise Refused("lengths", f"a trajectory of no step or more than {self._horizon}, or an unknown ending")
        steps = int(lengths.sum())
        arrays = {
            expected.name: expected.take(row, data, expected.column.count(steps, count, self._stack))
            for expected, row in zip(columns, table, strict=False)
        }
        for name, space in () if evaluation else self._choices:
            if not _below(arrays[name], space.sizes[0] if space.kind == "discrete" else np.reshape(space.sizes, space.shape)):
                raise Refused("range", f"{name} outside {list(space.sizes)}")
        return Parcel(envelope.epoch, envelope.version, lengths, endings, arrays, Results(returns, episodes), evaluation)


class _Expected:
    """One column as the receiver's spec has it, to which what arrives must be equal before memory is taken for it."""

    def __init__(self, column: Column, encoding: str) -> None:
        self.column, self.name, self.encoding = column, column.name, encoding
        self._dtype, self._shape = np.dtype(column.dtype), list(column.shape)
        self._element = self._dtype.itemsize * math.prod(column.shape)

    def block(self, array: np.ndarray) -> bytes | memoryview:
        """The bytes of an array that is to be sent as this column."""
        return np.ascontiguousarray(array, self._dtype).data.cast("B") if array.size else b""

    def take(self, row: Any, data: memoryview, count: int) -> np.ndarray:
        """The column of `count` elements that a row of the table describes, as a view into the data."""
        if not isinstance(row, list) or len(row) != 6:
            raise Refused("columns", "a column is not described by six values")
        name, dtype, shape, offset, length, encoding = row
        if name != self.name:
            raise Refused("columns", f"{name!r} where {self.name} belongs")
        if dtype != self.column.dtype:
            raise Refused("dtype", f"{name} is {dtype!r}, not {self.column.dtype}")
        if shape != [count, *self._shape]:
            raise Refused("shape", f"{name} is {shape!r}, not {[count, *self._shape]}")
        if type(offset) is not int or type(length) is not int or offset % ALIGNMENT or not 0 <= offset <= offset + length <= len(data):
            raise Refused("columns", f"{name} does not lie in its message")
        if encoding not in ("", self.encoding):
            raise Refused("encoding", f"{name} comes as {encoding!r}")
        size = self._element * count
        block = DECODE[encoding](data[offset : offset + length], size)
        if len(block) != size:
            raise Refused("columns", f"{name} has {len(block)} bytes, not {size}")
        array: np.ndarray = np.ndarray((count, *self._shape), self._dtype, block)  # our numbers: 2.0 equals 2 and is no size
        if self._dtype.kind == "f" and np.count_nonzero(np.isfinite(array)) < array.size:
            raise Refused("nonfinite", f"{name} holds NaN or infinity")
        return array


def _claimed(row: Any) -> int:
    """How many elements a column says it has; its bytes must agree."""
    shape = row[2] if isinstance(row, list) and len(row) == 6 else None
    if not isinstance(shape, list) or len(shape) != 1 or type(shape[0]) is not int or not 0 <= shape[0] <= MAX_MESSAGE_BYTES:
        raise Refused("columns", "a column does not say how long it is")
    return shape[0]


def _below(array: np.ndarray, limit: int | np.ndarray) -> bool:
    """Whether all are from 0 to below a limit: a number that becomes an index. Negative ones are huge without their sign."""
    return bool(np.count_nonzero(array.view(UNSIGNED[array.itemsize]) < limit) == array.size)
