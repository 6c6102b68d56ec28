"""Parcels as bytes and back: everything that arrives is checked against the receiver's own spec."""

import math
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from msgspec.structs import asdict

from farflung.common.data.fields import LARGEST
from farflung.common.data.layout import ALIGNMENT, layout
from farflung.common.data.magnitudes import are_below, require_within
from farflung.common.data.parcel import Ending, Parcel, Place, Results
from farflung.common.data.spec import RESULT, Column, Spec
from farflung.common.process.errors import Refused
from farflung.common.protocol.packing import DECODE, ENCODE, pack
from farflung.common.protocol.wire import (
    MAX_MESSAGE_BYTES,
    Envelope,
    Kind,
    Opened,
    assemble,
    read_table,
)

COUNTS = (
    Column("lengths", "int32", (), "trajectory"),
    Column("endings", "uint8", (), "trajectory"),
)
RESULTS = (
    Column("result_returns", "float64", (), "trajectory"),
    Column("result_lengths", "int32", (), "trajectory"),
)
COUNTED = tuple(column.name for column in (*COUNTS, *RESULTS))
ENDINGS = len(Ending)

SMALL = 1024  # bytes of an array that is copied in less time than a view of it is made
PLANS = 1024  # sizes of parcels that are remembered: an actor's recur


class ParcelCodec:
    """The parcels of one policy as bytes, both ways. It works out the columns of the spec once."""

    def __init__(self, spec: Spec, largest: float = LARGEST) -> None:
        self._largest = largest
        self._schema, self._horizon, self._stack = spec.schema, spec.horizon, spec.stack
        self._columns = [
            _Expected(column, spec.compression.get(column.name, "")) for column in spec.columns
        ]
        self._counts = [_Expected(column, "") for column in COUNTS]
        self._results = [_Expected(column, "") for column in (*RESULTS, *spec.result_extras)]
        self._metrics = {name: RESULT + name for name in spec.metrics}  # names of columns
        self._limits, self._most_rows = _limits(spec), spec.most_rows
        self._step_column = next(
            index for index, column in enumerate(spec.columns) if column.per == "step"
        )
        self._plan = lru_cache(PLANS)(self._planned)
        self._table = lru_cache(PLANS)(self._tabled)
        self._steps = lru_cache(PLANS)(self._counted)
        self._known: dict[tuple[bool, bytes], _Plan] = {}  # by packed table: what lies as planned

    def encode(self, envelope: Envelope, parcel: Parcel) -> bytearray:
        """Return the frame of a parcel. It is made once, at the first send, and never changes."""
        arrays = (
            []
            if parcel.evaluation
            else [(expected, parcel.columns[expected.name]) for expected in self._columns]
        )
        arrays += zip(self._counts, (parcel.lengths, parcel.endings), strict=True)
        arrays += zip(self._results, parcel.results.columns(self._metrics), strict=True)
        blocks = [expected.block(array) for expected, array in arrays]
        shapes = tuple(array.shape for _, array in arrays)
        table = self._table(shapes, tuple(map(len, blocks)), parcel.evaluation)
        fields = asdict(envelope) | {"evaluation": parcel.evaluation}
        return assemble(Kind.PARCEL, fields, blocks, table)

    def decode(self, opened: Opened, envelope: Envelope, *, known_finite: bool = False) -> Parcel:
        """Return the parcel, as views into the received bytes, checked against the receiver's spec.

        `known_finite` saves a quarter of the work on parcels that were accepted before.
        """
        if envelope.schema != self._schema:
            raise Refused("schema", f"{envelope.schema}, and this learner's is {self._schema}")
        evaluation = envelope.evaluation
        plan = self._known.get((evaluation, opened.table))
        if plan is not None and len(opened.data) >= plan.end:
            arrays = plan.cut(opened.data)
        else:
            plan, arrays = self._read(opened, evaluation)
        if not known_finite:
            plan.require_within(arrays, self._largest)
        results = plan.nothing or self._results_of(arrays)
        lengths, endings = arrays.pop("lengths"), arrays.pop("endings")
        place = envelope.round if isinstance(envelope.round, Place) else None
        parcel = Parcel(envelope.version, lengths, endings, arrays, results, evaluation, place)
        if not known_finite:
            parcel.require_bounded()
        if evaluation != (len(lengths) == 0):
            raise Refused("lengths", "rows in an evaluation, or none in a parcel")
        if self._steps(lengths.tobytes(), endings.tobytes()) != plan.steps:
            raise Refused(
                "lengths",
                f"trajectories of no step or more than {self._horizon}, not as many steps as rows, "
                "or an unknown ending",
            )
        for name, limit in () if evaluation else self._limits:
            if not are_below(arrays[name], limit):
                raise Refused("range", f"{name} is not below {limit}")
        return parcel

    def _results_of(self, arrays: dict[str, np.ndarray]) -> Results:
        """Take the results of episodes out of the columns."""
        returns, lengths = (arrays.pop(column.name) for column in RESULTS)
        metrics = {name: arrays.pop(column) for name, column in self._metrics.items()}
        return Results(returns, lengths, metrics)

    def _read(self, opened: Opened, evaluation: bool) -> tuple["_Plan", dict[str, np.ndarray]]:
        """Return the plan and the columns of a parcel with a table that is not known yet.

        Each column is checked by itself, unless all lie as planned.
        """
        table = read_table(opened)
        if not isinstance(table, list) or len(table) != len(self._counts) + len(self._results) + (
            0 if evaluation else len(self._columns)
        ):
            raise Refused("columns", "not the columns of the spec")
        steps = 0 if evaluation else _claimed(table[self._step_column])
        first = 0 if evaluation else len(self._columns)
        trajectories, finished = _claimed(table[first]), _claimed(table[first + 2])
        if steps > self._most_rows:
            raise Refused("rows", f"{steps} rows, and a parcel has {self._most_rows} at most")
        if not trajectories <= steps <= self._horizon * trajectories:
            raise Refused(
                "lengths",
                f"{steps} steps in {trajectories} trajectories of at most {self._horizon}",
            )
        plan = self._plan(evaluation, steps, trajectories, finished)
        if table != plan.table or len(opened.data) < plan.end:
            return plan, plan.take(table, opened.data)
        if len(self._known) >= PLANS:
            del self._known[next(iter(self._known))]
        self._known[evaluation, opened.table] = plan
        return plan, plan.cut(opened.data)

    def _tabled(
        self, shapes: tuple[tuple[int, ...], ...], sizes: tuple[int, ...], evaluation: bool
    ) -> bytes:
        """Return the packed table of columns of these shapes and sizes in bytes."""
        columns = [*([] if evaluation else self._columns), *self._counts, *self._results]
        placed = zip(columns, shapes, layout(sizes)[0], sizes, strict=True)
        return pack(
            [
                [column.name, column.column.dtype, shape, offset, size, column.encoding]
                for column, shape, offset, size in placed
            ]
        )

    def _counted(self, lengths: bytes, endings: bytes) -> int:
        """Return the steps of all trajectories, or -1.

        A trajectory without steps or beyond the horizon, or an unknown ending, makes it -1.
        """
        counts = np.frombuffer(lengths, COUNTS[0].dtype)
        known = are_below(counts - 1, self._horizon) and are_below(
            np.frombuffer(endings, COUNTS[1].dtype), ENDINGS
        )
        return int(counts.sum()) if known else -1

    def _planned(self, evaluation: bool, steps: int, trajectories: int, episodes: int) -> "_Plan":
        columns = [] if evaluation else self._columns
        counts = [expected.column.count(steps, trajectories, self._stack) for expected in columns]
        return _Plan(
            [*columns, *self._counts, *self._results],
            [*counts, trajectories, trajectories, *[episodes] * len(self._results)],
            steps,
            len(self._results),
        )


class _Plan:
    """The table of an uncompressed parcel of certain sizes: one comparison checks all columns."""

    def __init__(
        self, columns: list["_Expected"], counts: list[int], steps: int, results: int
    ) -> None:
        self.steps = steps
        self._columns, self._counts = columns, counts
        # Most parcels end no episode: they share results without any, and need no columns of them.
        self.nothing = None if counts[-1] else Results()
        self._kept = len(columns) - (0 if counts[-1] else results)
        counted = [*zip(columns, counts, strict=True)]
        offsets, self.end = layout(column.element * count for column, count in counted)
        placed = [*zip(columns, counts, offsets, strict=True)]
        shapes = (
            (column.name, (count, *column.shape), column.dtype, offset)
            for column, count, offset in placed
        )
        self._places = [*islice(shapes, self._kept)]
        self.table = [
            [
                column.name,
                column.column.dtype,
                [count, *column.shape],
                offset,
                column.element * count,
                "",
            ]
            for column, count, offset in placed
        ]
        self._floats = [
            column.name
            for column, count in counted
            if column.dtype.kind == "f" and count and column.column.per != "result"
        ]

    def cut(self, data: memoryview) -> dict[str, np.ndarray]:
        """Return the columns by name, as views into data that lies as planned."""
        return {
            name: np.ndarray(shape, dtype, data, offset)
            for name, shape, dtype, offset in self._places
        }

    def take(self, table: list[Any], data: memoryview) -> dict[str, np.ndarray]:
        """Return the columns by name, each compressed, or not where planned, or refused."""
        described = zip(self._columns, table, self._counts, strict=True)
        taken = [(column.name, column.take(row, data, count)) for column, row, count in described]
        return dict(taken[: self._kept])

    def require_within(self, arrays: dict[str, np.ndarray], largest: float) -> None:
        """Refuse NaN, infinity, and what is larger than any honest value."""
        for name in self._floats:
            most = largest if name not in COUNTED else math.inf  # results have their own bound
            require_within(arrays[name], most, name)


class _Expected:
    """One column of the receiver's spec. A row of a table must equal it before memory is taken."""

    def __init__(self, column: Column, encoding: str) -> None:
        self.column, self.name, self.encoding = column, column.name, encoding
        self.dtype, self.shape = np.dtype(column.dtype), column.shape
        self.element = self.dtype.itemsize * math.prod(column.shape)

    def block(self, array: np.ndarray) -> bytes | memoryview:
        """Return the bytes of an array to send as this column."""
        if array.nbytes <= SMALL and array.dtype == self.dtype and not self.encoding:
            return array.tobytes()
        block = np.ascontiguousarray(array, self.dtype).data.cast("B") if array.size else b""
        return ENCODE[self.encoding](block)

    def take(self, row: Any, data: memoryview, count: int) -> np.ndarray:
        """Return the column of `count` elements that a row describes, as a view into the data."""
        if not isinstance(row, list) or len(row) != 6:
            raise Refused("columns", "a column is not described by six values")
        name, dtype, shape, offset, length, encoding = row
        if name != self.name:
            raise Refused("columns", f"{name!r} where {self.name} belongs")
        if dtype != self.column.dtype:
            raise Refused("dtype", f"{name} is {dtype!r}, not {self.column.dtype}")
        if shape != [count, *self.shape]:
            raise Refused("shape", f"{name} is {shape!r}, not {[count, *self.shape]}")
        if (
            type(offset) is not int
            or type(length) is not int
            or offset % ALIGNMENT
            or not 0 <= offset <= offset + length <= len(data)
        ):
            raise Refused("columns", f"{name} does not lie in its message")
        if encoding not in ("", self.encoding):
            raise Refused("encoding", f"{name} comes as {encoding!r}")
        size = self.element * count
        block = DECODE[encoding](data[offset : offset + length], size)
        if len(block) != size:
            raise Refused("columns", f"{name} has {len(block)} bytes, not {size}")
        # Our numbers: 2.0 equals 2 and is no size.
        return np.ndarray((count, *self.shape), self.dtype, block)


def _limits(spec: Spec) -> list[tuple[str, int | np.ndarray]]:
    """Return the columns with bounded numbers, each with the first number too high."""
    shapes = {column.name: column.shape for column in spec.columns}
    limits: list[tuple[str, int | np.ndarray]] = [
        (name, sizes[0] if len(sizes) == 1 else np.reshape(sizes, shapes[name]))
        for name, sizes in spec.choices.items()
    ]
    return limits + [(column.name, 2) for column in spec.columns if column.dtype == "bool"]


def _claimed(row: Any) -> int:
    """Return how many elements a column claims to have; its bytes must agree."""
    shape = row[2] if isinstance(row, list) and len(row) == 6 else None
    if (
        not isinstance(shape, list)
        or not shape
        or type(shape[0]) is not int
        or not 0 <= shape[0] <= MAX_MESSAGE_BYTES
    ):
        raise Refused("columns", "a column does not name its length")
    return shape[0]
