"""The rows of a bad peer: legal until told otherwise."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from farflung.common.data.parcel import Parcel, Results
from farflung.common.data.spec import REWARDS, Spec
from farflung.common.data.weights import Version


def trajectories(
    spec: Spec, rows: int, values: Mapping[str, Any], results: tuple[tuple[float, int], ...]
) -> Parcel:
    """Return so many rows of zeros with rewards of 1, in trajectories as long as allowed."""
    whole, rest = divmod(rows, spec.horizon)
    lengths = np.array([spec.horizon] * whole + [rest] * (rest > 0), np.int32)
    columns = {}
    for column in spec.columns:
        count = column.count(rows, len(lengths), spec.stack)
        usual = 1 if column.name == REWARDS else 0
        columns[column.name] = np.broadcast_to(
            np.asarray(values.get(column.name, usual), column.dtype), (count, *column.shape)
        )
    scores = Results(
        np.array([score for score, _ in results], np.float64),
        np.array([length for _, length in results], np.int32),
    )
    endings = np.zeros(len(lengths), np.uint8)
    return Parcel(Version(1, 1), lengths, endings, columns, scores, evaluation=not len(lengths))
