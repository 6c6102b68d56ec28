"""The magnitudes of values: those that overflow in training are refused, or cut to a bound."""

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from farflung.common.process.errors import Refused

SINGLE = np.dtype(np.float32)
UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


def are_below(array: np.ndarray, limit: int | np.ndarray) -> bool:
    """Return whether all are at least 0 and below a limit. Read without sign, -1 is huge.

    For few values a search in bytes is much faster than `numpy.all`.
    """
    return 0 not in (array.view(UNSIGNED[array.itemsize]) < limit).tobytes()


def require_within(array: np.ndarray, largest: float, name: str) -> None:
    """Refuse NaN, infinity, and values beyond a magnitude.

    A sum of squares below half of the bound's square has none of them, rounded or not. It reads the
    values once and writes nothing: half of the time of comparing each. (Of float64 it would wake
    other threads.) For few values a search in bytes is much faster than `numpy.all`.
    """
    if array.dtype == SINGLE and float(np.vdot(array, array)) < largest * largest / 2:
        return
    if largest < math.inf:
        within = np.less_equal(np.abs(array), _bound(array.dtype, largest))
    else:
        within = np.isfinite(array)
    if 0 not in within.tobytes():
        return
    if not np.isfinite(array).all():
        raise Refused("nonfinite", f"{name} holds NaN or infinity")
    bound = f"{largest:g} (--largest-value of the learner)"
    raise Refused("magnitude", f"{name} holds values beyond {bound}")


def bounded(columns: Mapping[str, np.ndarray], largest: float) -> Mapping[str, np.ndarray]:
    """Return columns with all floats cut to a magnitude; the same object if all are within it."""
    cut = {
        name: array.clip(-largest, largest)
        for name, array in columns.items()
        if array.dtype.kind == "f" and not (np.abs(array) <= largest).all()
    }
    return {**columns, **cut} if cut else columns


@lru_cache
def _bound(dtype: np.dtype, largest: float) -> np.ndarray:
    """Return a bound as an array: comparing few values to a number takes half as long again."""
    return np.array(largest, dtype)
