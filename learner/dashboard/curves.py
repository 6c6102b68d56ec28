"""Curves in bounded memory: a table of moments, with fewer rows an hour the longer a run lasts.

A row holds one moment at first. When all rows are taken, each pair of neighbours becomes one row,
so a row holds two moments, then four. Sums, counts and extremes are exact at every age.
"""

import math
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

ROWS = 1024  # even; a chart on a screen shows no more
NAMES = 80  # curves of one run; further names are left out
CELL_BYTES = 28  # sum, least and greatest as float64, count as int32
BYTES = ROWS * (NAMES * CELL_BYTES + 2 * 8)  # 2.3 MB: all that a table ever takes


class Curves:
    """The figures of one run over time and steps. Not for several threads at once."""

    def __init__(self, first: Iterable[str] = (), rows: int = ROWS, names: int = NAMES) -> None:
        if rows < 2 or rows % 2:
            raise ValueError("rows are merged in pairs: their number is even")
        self._rows, self._most = rows, names
        self._identity = secrets.token_hex(4)  # a reader never goes on in another table
        self.generation = 0  # times that rows were merged: a reader then reads all of them again
        self.left_out = 0  # values without a place for their name
        self._each = 1  # moments in a full row
        self._held = 0  # moments in the last row
        self._used = 0  # rows
        self._columns: dict[str, int] = {}
        self._times = np.zeros(rows)  # [rows] float64, seconds since 1970
        self._steps = np.zeros(rows)  # [rows] float64
        self._sums = np.zeros((names, rows))  # [names, rows] float64
        self._counts = np.zeros((names, rows), np.int32)  # [names, rows] int32
        self._least = np.full((names, rows), np.inf)  # [names, rows] float64
        self._most_of = np.full((names, rows), -np.inf)  # [names, rows] float64
        for name in first:
            self._column(name)

    def __len__(self) -> int:
        return self._used

    @property
    def names(self) -> list[str]:
        """The names of the curves that have a value."""
        return [name for name, column in self._columns.items() if self._counts[column].any()]

    @property
    def nbytes(self) -> int:
        """The memory of the table."""
        arrays = (self._times, self._steps, self._sums, self._counts, self._least, self._most_of)
        return sum(array.nbytes for array in arrays)

    def add(self, time: float, steps: float, figures: Mapping[str, float]) -> None:
        """Add a moment. Neither time nor steps go back: a clock may, and a learner that resumes."""
        if self._used == 0 or self._held == self._each:
            if self._used == self._rows:
                self._merge()
            self._used, self._held = self._used + 1, 0
        row = self._used - 1
        before = max(0, row - 1) if self._held == 0 else row
        self._times[row] = max(time, self._times[before])
        self._steps[row] = max(steps, self._steps[before])
        self._held += 1
        for name, value in figures.items():
            column = self._column(name)
            if column is None:
                self.left_out += 1
            elif math.isfinite(value):
                self._sums[column, row] += value
                self._counts[column, row] += 1
                self._least[column, row] = min(self._least[column, row], value)
                self._most_of[column, row] = max(self._most_of[column, row], value)

    def table(self, names: Iterable[str], after: int = 0) -> dict[str, Any]:
        """Return rows from this one on as plain lists, with None where a curve has no value."""
        rows = slice(min(max(0, after), self._used), self._used)
        return {
            "table": self._identity,
            "generation": self.generation,
            "after": rows.start,
            "rows": self._used,
            "time": self._times[rows].tolist(),
            "steps": self._steps[rows].tolist(),
            "curves": {
                name: self._curve(self._columns[name], rows)
                for name in names
                if name in self._columns
            },
        }

    def points(self, name: str, by: str) -> tuple[np.ndarray, np.ndarray]:
        """Return where one curve has values, by `steps` or by `time`, and its means there."""
        column = self._columns.get(name)
        if column is None:
            return np.zeros(0), np.zeros(0)
        counts = self._counts[column, : self._used]
        at = counts > 0
        places = (self._times if by == "time" else self._steps)[: self._used]
        return places[at].copy(), self._sums[column, : self._used][at] / counts[at]

    def _column(self, name: str) -> int | None:
        if name not in self._columns and len(self._columns) < self._most:
            self._columns[name] = len(self._columns)
        return self._columns.get(name)

    def _curve(self, column: int, rows: slice) -> dict[str, list[float | None]]:
        counts = self._counts[column, rows]
        means = self._sums[column, rows] / np.maximum(counts, 1)
        shown = {
            "mean": means,
            "low": self._least[column, rows],
            "high": self._most_of[column, rows],
        }
        return {
            word: [
                value if count else None
                for value, count in zip(values.tolist(), counts.tolist(), strict=True)
            ]
            for word, values in shown.items()
        }

    def _merge(self) -> None:
        """Let each pair of neighbours become one row."""
        half = self._rows // 2
        for places in (self._times, self._steps):
            places[:half] = places[1::2]
        for array, together, empty in (
            (self._sums, np.add, 0.0),
            (self._counts, np.add, 0),
            (self._least, np.minimum, np.inf),
            (self._most_of, np.maximum, -np.inf),
        ):
            array[:, :half] = together(array[:, ::2], array[:, 1::2])
            array[:, half:] = empty
        self._used, self._each = half, 2 * self._each
        self._held = self._each
        self.generation += 1
