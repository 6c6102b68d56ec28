"""The number of processors that this process may use."""

import math
import os
from pathlib import Path

from farflung.learner.config import LearnerConfig


def usable_processors(
    cgroup: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> int:
    """Return how many processors affinity and container quotas leave; at least 1."""
    allowed = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(1, math.ceil(min(allowed, _quota(cgroup, own))))


def actors_for(processors: int) -> int:
    """Return the number of actors for `--actors auto`.

    One processor is left for training, and one for network and disk.
    """
    return max(1, processors - 2)


def local_actors(config: LearnerConfig) -> int:
    """Return how many actors this learner starts on its own machine.

    `auto` starts no more than a round has: the others would never play.
    """
    if config.actors != "auto":
        return config.actors
    found = actors_for(usable_processors())
    return min(found, config.round_actors) if config.round_actors else found


def _quota(cgroup: Path, own: Path) -> float:
    """Return the lowest quota from the root group down to our own, in processors."""
    group = next(
        (line.removeprefix("0::/") for line in _read(own).splitlines() if line.startswith("0::/")),
        "",
    )
    folders = [cgroup, *(cgroup / parent for parent in (Path(group), *Path(group).parents))]
    new = [_share(*_read(folder / "cpu.max").split()) for folder in folders]
    old = _share(
        _read(cgroup / "cpu" / "cpu.cfs_quota_us"), _read(cgroup / "cpu" / "cpu.cfs_period_us")
    )
    return min([old, *new])


def _share(quota: str = "max", period: str = "") -> float:
    quota, period = quota.strip(), period.strip()
    return (
        int(quota) / int(period)
        if quota.isdecimal() and period.isdecimal() and int(period)
        else math.inf
    )


def _read(path: Path) -> str:
    """Return the text of a kernel file; empty if this system has none."""
    try:
        return path.read_text()
    except OSError:
        return ""
