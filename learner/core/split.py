"""The time of the training thread by its parts, and that of an update by its own."""

from collections.abc import Callable
from enum import StrEnum

from farflung.common.data.statistics import Spread
from farflung.common.protocol.spans import Tracer

RECENT = 200  # updates


class Part(StrEnum):
    """A part of the training thread's time."""

    UPDATE = "update"  # also the application of workers' gradients
    INSERT = "insert"
    PUBLISH = "publish"
    EXPERIENCE = "experience"  # waits: nothing can be done before more of it comes


class Split:
    """Clocks the parts of the latest updates. Without a clock it measures nothing."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock
        self.spans = Tracer()  # its parts are spans of it too; both have one clock
        self._at = 0.0
        self._parts: dict[str, Spread] = {}

    def begin(self) -> None:
        """Begin an update."""
        if self._clock is not None:
            self._at = self._clock()

    def lap(self, part: str) -> None:
        """End a part: the time since the last call is its own."""
        if self._clock is not None:
            before, self._at = self._at, self._clock()
            self._parts.setdefault(part, Spread(RECENT)).add(self._at - before)
            if self.spans.on:
                self.spans.add(part, before, self._at)

    @property
    def seconds(self) -> dict[str, float]:
        """The mean time of each part in one update."""
        return {part: times.mean or 0.0 for part, times in self._parts.items()}
