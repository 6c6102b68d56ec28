"""Cutting: a window of rows by time and seat becomes trajectories, seat after seat."""

from typing import NamedTuple

import numpy as np

from farflung.common.data.parcel import Ending

OPEN = int(Ending.OPEN)  # numpy takes longer to compare with the member itself


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
    time, count = endings.shape
    # From here on in the order of the trajectories, [N * T]: seat after seat.
    places = np.arange(time * count).reshape(time, count).T.ravel()
    endings, taken = endings.T.ravel(), ~lost.T.ravel()
    breaks = endings != OPEN  # after which steps nothing goes on
    breaks |= ~taken
    breaks[:-1] |= ~taken[1:]
    breaks.reshape(count, time)[:, -1:] = True
    first = taken.copy()
    first[1:] &= breaks[:-1]
    starts, stops = first.nonzero()[0], (taken & breaks).nonzero()[0]
    begun, endings, steps = places[starts], endings[stops], places[taken]
    lengths = stops - starts + 1
    counts = lengths + stack
    ends = counts.cumsum()
    frames = np.arange(0, (len(steps) + len(counts) * stack) * count, count)
    frames += (begun - (ends - counts) * count).repeat(counts)
    if stack > 1:
        # Only at the window's first row do frames of the same episode lie before; elsewhere an
        # episode's first frame is repeated.
        earliest = begun + (begun >= count) * (stack - 1) * count
        frames = np.maximum(frames, earliest.repeat(counts))
    return Cut(
        lengths=lengths.astype(np.int32),
        endings=endings,
        steps=steps,
        frames=frames,
        finals=ends[endings != OPEN] - 1,
    )
