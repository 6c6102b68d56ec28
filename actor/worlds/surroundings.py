"""The process around a world, as functions that the world calls."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The process around environments."""

    on_problem: Callable[[str, str], None]  # kind and text of what an environment raised
    wait: Callable[[float], object]  # pause for so many seconds before it is built again
    clock: Callable[[], float]
    beat: Callable[[], None] = lambda: None
    """Called before each environment is made, first reset, or stepped, for a watchdog."""
    threads: int = 0
    """The most that may step slow environments at once; 0 and 1: none."""
    processes: int = 0
    """The most that may have slow environments where threads are no faster; 0 and 1: none."""
    imports: tuple[str, ...] = ()
    """The user's packages, which such a process imports."""
