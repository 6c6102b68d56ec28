"""The speed of this machine now, beside the quiet one on which the limits of tests were chosen.

The unit of work is a process that imports torch, as each learner does. It is timed only when a
limit has run out, so tests on a quiet machine never pay for it.
"""

import os
import sys
import time
from typing import NamedTuple

UNIT = (sys.executable, "-c", "import torch")
QUIET_WALL_S, QUIET_PROCESSOR_S = 1.2, 1.3  # of the unit: two cores of 2.5 GHz, nothing else to do
SLOWEST = 30.0  # times; beyond it a limit means nothing


class Slowness(NamedTuple):
    """Factors by which work takes longer here and now, each at least 1."""

    wall: float
    processor: float  # processor time: other work on the machine shares its caches


def slowness() -> Slowness:
    """Measure both factors; a crowd that has just left still counts."""
    wall_s, processor_s = _unit()
    crowd = os.getloadavg()[0] / (os.cpu_count() or 1)  # over the last minute
    return Slowness(
        _factor(max(wall_s / QUIET_WALL_S, crowd)), _factor(processor_s / QUIET_PROCESSOR_S)
    )


def _factor(measured: float) -> float:
    return min(max(1.0, measured), SLOWEST)


def _unit() -> tuple[float, float]:
    """Return the seconds that one unit of work takes, by the clock and of processor time."""
    began = time.monotonic()
    process = os.posix_spawn(UNIT[0], UNIT, os.environ | {"OMP_NUM_THREADS": "1"})
    _, _, usage = os.wait4(process, 0)
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime
