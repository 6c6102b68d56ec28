"""The memory of an actor by its parts, for its reports.

A library's own memory cannot be asked for: that of environments and of the session of the acting
graph is what the process grew by when they were made.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from farflung.actor.connection.port import Work
from farflung.common.process.memory import own_bytes, resident_bytes

PREFIX = "memory."  # of the counters in a report
RESIDENT, LIBRARIES, WEIGHTS, PARCELS = "resident", "libraries", "weights", "parcels"
ENVIRONMENTS, SESSION = "environments", "session"
PARTS = (RESIDENT, LIBRARIES, WEIGHTS, PARCELS, ENVIRONMENTS, SESSION)


def holding(weights: int, parcels: int, grown: Mapping[str, int]) -> dict[str, float]:
    """Return the counters of a report: bytes by part."""
    resident = resident_bytes()
    parts = {
        RESIDENT: resident.total,
        LIBRARIES: resident.files,
        WEIGHTS: weights,
        PARCELS: parcels,
        **grown,
    }
    return {PREFIX + part: float(size) for part, size in parts.items()}


@contextmanager
def grows(work: Work, part: str) -> Iterator[None]:
    """Note by how much the process grows meanwhile."""
    before = own_bytes()
    yield
    work.memory = {**work.memory, part: max(0, own_bytes() - before)}
