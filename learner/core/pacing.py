"""Pacing: how fast collection and learning may go, each in terms of the other."""

import math
import sys
from dataclasses import dataclass

from farflung.common.process.errors import ConfigurationError


@dataclass(slots=True)
class Pacing:
    """Holds the replay ratio: how many samples are drawn for each row that came in after the warm-up.

    `ahead = ratio * (rows - warmup) - samples` is how many samples collection is ahead. An update needs its whole batch of them,
    so learning never outruns the ratio; collection may be ahead by the tolerance. Both could be blocked at once only where
    `ahead < batch` and `ahead + ratio * parcel > tolerance`, so a tolerance of `batch + ratio * parcel` or more rules that out,
    and a parcel of unforeseen size is let in whenever an update is not possible. With an infinite ratio nobody waits after the warm-up.
    """

    ratio: float
    batch: int  # samples of one update
    warmup: int  # rows before the first update
    parcel: int  # rows of the largest parcel that is foreseen
    tolerance: float = 0.0  # samples that collection may be ahead; 0: twice the least that works
    rows: int = 0
    samples: int = 0
    usual: float = 0.0  # rows of a parcel, as they come: an actor elsewhere may have more environments than was foreseen

    def __post_init__(self) -> None:
        """Refuse what could never hold."""
        self.usual = self.usual or float(self.parcel)
        if not self.ratio > 0:
            raise ConfigurationError(
                f"a replay ratio of {self.ratio:g} never learns: it counts samples per row and must be above 0 (inf: nobody waits)"
            )
        least = self.batch if math.isinf(self.ratio) else self.batch + self.ratio * self.parcel
        self.tolerance = self.tolerance or 2 * least
        if self.tolerance < least:
            raise ConfigurationError(
                f"a tolerance of {self.tolerance:g} samples is below batch + ratio x largest parcel "
                f"({self.batch} + {self.ratio:g} x {self.parcel} = {least:g}): collection and learning would wait for each other"
            )

    def inserted(self, rows: int) -> None:
        """Count rows that came into the replay, those of a parcel."""
        self.rows += rows
        self.usual += (rows - self.usual) / 16

    def sampled(self, samples: int) -> None:
        """Count samples that an update drew."""
        self.samples += samples

    @property
    def ahead(self) -> float:
        """How many samples collection is ahead of learning; below 0 before the warm-up."""
        if math.isinf(self.ratio):
            return math.inf if self.rows > self.warmup else -math.inf
        return self.ratio * (self.rows - self.warmup) - self.samples

    @property
    def may_update(self) -> bool:
        """Whether a batch may be sampled now."""
        return self.ahead >= self.batch

    def may_insert(self, rows: int) -> bool:
        """Whether a parcel of so many rows may enter the replay now."""
        return rows <= self.room or not self.may_update

    @property
    def room(self) -> int:
        """How many more rows collection may bring before an update must come; at least a parcel while learning waits for rows."""
        if math.isinf(self.ratio):
            return sys.maxsize
        return max(
            0, math.floor(self.warmup - self.rows + (self.samples + self.tolerance) / self.ratio)
        )

    @property
    def missing(self) -> int:
        """How many more rows the next update needs."""
        if self.may_update:
            return 0
        needed = (
            1 if math.isinf(self.ratio) else math.ceil((self.samples + self.batch) / self.ratio)
        )
        return max(1, self.warmup + needed - self.rows)

    @property
    def held(self) -> float:
        """The replay ratio so far: samples drawn for each row after the warm-up."""
        return self.samples / (self.rows - self.warmup) if self.rows > self.warmup else 0.0

    @property
    def reason(self) -> str:
        """Which side waits, and for what; empty while neither must."""
        if not self.may_update:
            return f"updates wait for {self.missing} more rows" + (
                "" if self.samples else " to start with"
            )
        return "collection waits for updates" if self.room < self.usual else ""
