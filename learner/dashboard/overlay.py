"""One curve of several runs laid over one another, with their mean and range."""

from collections.abc import Mapping
from typing import Any

import numpy as np

POINTS = 240  # of a chart
LEAST = 2  # runs that have a mean and a range

Points = tuple[np.ndarray, np.ndarray]  # where, and the values there: [n] float64 each


def overlay(curves: Mapping[str, Points], points: int = POINTS) -> dict[str, Any]:
    """Return each run on common places, and the mean and range over those that got that far.

    Between two points of a run its value lies on a line. A run has no value before its first
    point and after its last one.
    """
    known = {run: found for run, found in curves.items() if len(found[0])}
    if not known:
        return {"at": [], "runs": {}, "mean": [], "low": [], "high": [], "count": []}
    low = min(at[0] for at, _ in known.values())
    high = max(at[-1] for at, _ in known.values())
    at = np.linspace(low, high, points) if high > low else np.array([low])
    values = np.array(
        [np.interp(at, *found, left=np.nan, right=np.nan) for found in known.values()]
    )  # [runs, points] float64
    counts = np.isfinite(values).sum(axis=0)  # [points] int64
    enough = counts >= LEAST
    return {
        "at": at.tolist(),
        "runs": {run: _plain(each) for run, each in zip(known, values, strict=True)},
        "mean": _plain(np.where(enough, np.nansum(values, axis=0) / np.maximum(counts, 1), np.nan)),
        "low": _plain(np.where(enough, _ends(values, np.inf).min(axis=0), np.nan)),
        "high": _plain(np.where(enough, _ends(values, -np.inf).max(axis=0), np.nan)),
        "count": counts.tolist(),
    }


def _ends(values: np.ndarray, absent: float) -> np.ndarray:
    return np.where(np.isfinite(values), values, absent)


def _plain(values: np.ndarray) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values.tolist()]
