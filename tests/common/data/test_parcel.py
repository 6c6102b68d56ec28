"""Parcels: how many elements each column has, and where each trajectory lies."""

import numpy as np
import pytest

from farflung.common.data.parcel import Ending, Parcel, Results
from farflung.common.data.spec import Column
from farflung.common.data.weights import Version

SEEN, ACTED, STARTED = (
    Column("o", "int64", (), "observation"),
    Column("a", "int64", (), "step"),
    Column("s", "int64", (), "trajectory"),
)


@pytest.mark.parametrize(
    ("column", "stack", "count"), [(SEEN, 1, 7), (SEEN, 4, 13), (ACTED, 4, 5), (STARTED, 4, 2)]
)
def test_column_counts_follow_from_its_kind(column, stack, count):
    """5 steps in 2 trajectories: each brings `stack` frames beyond its steps."""
    assert column.count(5, 2, stack) == count


def parcel(stack):
    columns = {"o": np.arange(5 + 2 * stack), "a": np.arange(5) * 10, "s": np.array([100, 200])}
    results = Results(np.array([1.0]), np.array([3], np.int32))
    return Parcel(
        Version(1, 2),
        np.array([2, 3], np.int32),
        np.array([Ending.TERMINATED, Ending.OPEN], np.uint8),
        columns,
        results,
    )


@pytest.mark.parametrize(
    ("stack", "frames"),
    [(1, [[0, 1, 2], [3, 4, 5, 6]]), (3, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9, 10]])],
)
def test_parcel_trajectories_are_views(stack, frames):
    """Of 2 and 3 steps, with leading and final frames, their own steps and endings."""
    first, second = parcel(stack).trajectories((SEEN, ACTED, STARTED), stack)
    assert [first.columns["o"].tolist(), second.columns["o"].tolist()] == frames
    assert [first.columns["a"].tolist(), second.columns["a"].tolist()] == [[0, 10], [20, 30, 40]]
    assert [first.columns["s"].tolist(), second.columns["s"].tolist()] == [[100], [200]]
    assert [(first.length, first.ending), (second.length, second.ending)] == [
        (2, Ending.TERMINATED),
        (3, Ending.OPEN),
    ]


def test_parcel_counts_its_rows_and_bytes():
    """5 rows; 14 numbers of 8 bytes, 5 bytes for each trajectory, 12 for each result."""
    assert (parcel(1).rows, parcel(1).size) == (5, 14 * 8 + 2 * 5 + 12)


def test_parcel_has_no_results_by_default():
    """Each parcel has its own empty columns of the right types."""
    assert (Results().returns.dtype, Results().lengths.dtype, len(Results().returns)) == (
        np.float64,
        np.int32,
        0,
    )


@pytest.mark.parametrize("stack", [1, 3])
@pytest.mark.parametrize(("most", "lengths"), [(5, [[2, 3]]), (4, [[2], [3]]), (1, [[2], [3]])])
def test_large_parcel_is_cut_between_trajectories(stack, most, lengths):
    """The parts hold the same trajectories in order; the last one has the results."""
    whole, columns = parcel(stack), (SEEN, ACTED, STARTED)
    parts = whole.parts(most, columns, stack)
    assert [part.lengths.tolist() for part in parts] == lengths
    found = [one for part in parts for one in part.trajectories(columns, stack)]
    for one, other in zip(found, whole.trajectories(columns, stack), strict=True):
        assert (one.length, one.ending) == (other.length, other.ending)
        assert all((one.columns[name] == other.columns[name]).all() for name in "oas")
    assert [len(part.results.returns) for part in parts] == [0] * (len(parts) - 1) + [1]
