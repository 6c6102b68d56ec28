"""The clock of another process, from round trips of messages that carry the times of both clocks.

A message leaves at `asked` and its answer comes at `received`, both by our clock; in between, the
other process reads its own clock, `at`. So its clock is ahead by at - received at least, and by
at - asked at most. Each round trip says so, and all of them hold. The answer lies between the
narrowest two bounds, which are never wider apart than the shortest round trip.
"""

from collections.abc import Sequence
from typing import NamedTuple

ROUNDED_US = 1  # each time is a whole number of microseconds, rounded down


class RoundTrip(NamedTuple):
    """Three times in microseconds, in their order."""

    asked: int  # by our clock
    at: int  # by the clock of the other process
    received: int  # by our clock


class Clock(NamedTuple):
    """The clock of another process, compared to ours."""

    ahead_us: float
    error_us: float  # at most, either way, if both clocks run equally fast


def align(trips: Sequence[RoundTrip]) -> Clock:
    """Return how far another clock is ahead of ours.

    If the bounds contradict each other, a clock was set or runs faster: the shortest trip counts.
    """
    least = max(trip.at - trip.received for trip in trips)
    most = min(trip.at - trip.asked for trip in trips)
    if least > most:
        shortest = min(trips, key=lambda trip: trip.received - trip.asked)
        least, most = shortest.at - shortest.received, shortest.at - shortest.asked
    return Clock((least + most) / 2, (most - least) / 2 + ROUNDED_US)
