"""Cutting: a window of rows by time and seat becomes trajectories, seat after seat."""

from typing import NamedTuple

import numpy as np

from farflung.common.data.parcel import Ending


class Cut(NamedTuple):
    """A window as trajectories, seat after seat. A place in its rows is time * seats + seat."""

    lengths: np.ndarray  # [K] int32
    endings: np.ndarray  # [K] uint8
    steps: np.ndarray  # [R] int64: the place of each step
    frames: np.ndarray  # [R + K * stack] int64: the place of each frame
    finals: np.ndarray  # [E] int64: which of `frames` end an episode, and are not among the rows


def cut(endings: np.ndarray, lost: np.ndarray, stack: int) -> Cut:
    """Cut where an episode ended and where a step did not happen.

    `endings [T, N] uint8` and `lost [T, N] bool` are by time and seat.
    """
    ended, taken = endings.T != Ending.OPEN, ~lost.T  # [N, T] bool
    first, last = taken.copy(), taken.copy()
    first[:, 1:] &= ended[:, :-1] | ~taken[:, :-1]
    last[:, :-1] &= ended[:, :-1] | ~taken[:, 1:]
    seats, starts = np.nonzero(first)
    stops = np.nonzero(last)[1]
    lengths = stops - starts + 1
    steps_seat, steps_time = np.nonzero(taken)
    counts = lengths + stack
    ends = np.cumsum(counts)
    times = np.arange(counts.sum()) + np.repeat(starts - ends + counts, counts)
    # Only at the window's first row do frames of the same episode lie before; elsewhere an
    # episode's first frame is repeated.
    times = np.maximum(times, np.repeat(np.where(starts > 0, starts + stack - 1, 0), counts))
    return Cut(
        lengths=lengths.astype(np.int32),
        endings=endings[stops, seats],
        steps=steps_time * len(taken) + steps_seat,
        frames=times * len(taken) + np.repeat(seats, counts),
        finals=ends[ended[seats, stops]] - 1,
    )
