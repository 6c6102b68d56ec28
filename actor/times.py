"""The time of an actor by its parts, in seconds since it began: reports carry it."""

from collections.abc import Callable
from enum import StrEnum

PREFIX = "seconds."  # of the counters in a report


class Part(StrEnum):
    """A part of an actor's time."""

    ENVIRONMENT = "environment"  # steps of environments
    INFERENCE = "inference"  # the choice of actions
    RECORDING = "recording"  # of what followed
    PACKING = "packing"  # all else that it does: parcels, messages, new weights
    ROOM = "room"  # waits: the learner has all that was sent, and no room for more
    DELIVERY = "delivery"  # waits: something that was sent is not acknowledged
    LEARNER = "learner"  # waits: no learner is there


PLAYED = (Part.INFERENCE, Part.ENVIRONMENT, Part.RECORDING)


class Times:
    """Adds up the parts. Of many quick steps one in a few milliseconds is timed by its parts."""

    def __init__(self, seconds: dict[str, float], clock: Callable[[], float]) -> None:
        """Add to these seconds, which reports carry."""
        self._seconds, self._clock = seconds, clock
        self._seconds.update(dict.fromkeys(Part, 0.0))
        self._parts = dict.fromkeys(PLAYED, 0.0)  # of the steps that were timed
        self._at = self._turned_at = clock()
        self._known_s = 0.0  # played and waited since `_turned_at`

    def begin(self) -> None:
        """Begin a step that is timed."""
        self._at = self._clock()

    def lap(self, part: Part) -> None:
        """End a part of it."""
        before, self._at = self._at, self._clock()
        self._parts[part] += self._at - before

    def played(self, seconds: float) -> None:
        """Share the time of steps among their parts as in the step that was timed."""
        whole = sum(self._parts.values())
        for part, timed in self._parts.items():
            self._seconds[part] += seconds * timed / whole if whole else 0.0
            self._parts[part] = 0.0
        self._known_s += seconds

    def waited(self, part: Part, seconds: float) -> None:
        """Count a wait."""
        self._seconds[part] += seconds
        self._known_s += seconds

    def turned(self) -> None:
        """End a turn: what was neither played nor waited was packed."""
        now = self._clock()
        self._seconds[Part.PACKING] += max(0.0, now - self._turned_at - self._known_s)
        self._turned_at, self._known_s = now, 0.0
