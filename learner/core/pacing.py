"""Pacing, the replay ratio held from both sides, and the counters that schedules decide on."""

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from farflung.common.data.weights import Version
from farflung.common.process.errors import ConfigurationError


class Cause(StrEnum):
    """A reason for one side to wait for the other."""

    NONE = "none"  # both sides may go on
    WARMUP = "warm-up"  # the first update waits for rows
    ROWS = "rows"  # the next update waits for rows
    PAUSE = "pause"  # all waits for the end of a pause
    UPDATES = "updates"  # collection waits for updates
    GRADIENTS = "gradients"  # updates wait for those of workers
    ACTORS = "actors"  # all waits for the first actor; the number starts on this machine
    EVALUATION = "evaluation"  # both wait for an evaluation in this process


class Waiting(NamedTuple):
    """The side that waits and how much it waits for. Sentences about it are made in `observe/`."""

    cause: Cause
    number: int = 0  # rows, or updates, that are missing


NO_WAIT, FOR_GRADIENTS = Waiting(Cause.NONE), Waiting(Cause.GRADIENTS)
PAUSED = Waiting(Cause.PAUSE)


@dataclass(slots=True)
class Pacing:
    """The replay ratio: samples drawn for each row that came in after the warm-up.

    `ahead = ratio * (rows - warmup) - samples` is how many samples collection is ahead. An update
    needs a whole batch of them, so learning never outruns the ratio. Collection may be ahead by
    the tolerance. Both sides could be blocked at once only where `ahead < batch` and
    `ahead + ratio * parcel > tolerance`. A tolerance of `batch + ratio * parcel` or more rules that
    out, and a parcel larger than `parcel` is let in whenever no update is possible. With an
    infinite ratio neither side waits after the warm-up.

    With rollouts, rows count once their rollout is whole: then all updates with it may be made.
    Collection is a rollout ahead at most, and a parcel.

    A weight multiplies the ratio for the rows to come: what rows before were worth is in `owed`.
    It has no effect on rollouts, or with an infinite ratio.
    """

    ratio: float
    batch: int  # samples of one update
    warmup: int  # rows before the first update
    parcel: int  # rows of the largest parcel that is expected
    tolerance: float = 0.0  # samples that collection may be ahead; 0: twice the least that works
    rollout: int = 0  # rows that are learned together; 0: any, as they come
    rows: int = 0
    samples: int = 0
    usual: float = 0.0  # rows of a parcel as they come: remote actors may have more environments
    weight: float = 1.0
    owed: float = 0.0  # samples for earlier rows, beyond those at the present weight

    def __post_init__(self) -> None:
        """Refuse settings that can never hold."""
        self.usual = self.usual or float(self.parcel)
        if not self.ratio > 0:
            raise ConfigurationError(
                f"a replay ratio of {self.ratio:g} never learns: it counts samples per row and "
                f"must be above 0 (inf: neither side waits)"
            )
        first = self.ratio * self.rollout if self.rollout else self.batch
        least = self.batch if math.isinf(self.ratio) else first + self.ratio * self.parcel
        self.tolerance = self.tolerance or (least if self.rollout else 2 * least)
        if self.tolerance < least:
            raise ConfigurationError(
                f"a tolerance of {self.tolerance:g} samples is below "
                f"{'ratio x rollout' if self.rollout else 'batch'} + ratio x largest parcel "
                f"({first:g} + {self.ratio:g} x {self.parcel} = "
                f"{least:g}): collection and learning would wait for each other"
            )

    @property
    def pace(self) -> float:
        """Samples for each row at the present weight."""
        return self.ratio * self.weight

    @property
    def weighs(self) -> bool:
        """False where a weight has no effect: the updates of a round or rollout have a number."""
        return math.isfinite(self.ratio) and not self.rollout

    def weigh(self, weight: float, ratio: float | None = None) -> None:
        """Take another weight, or ratio too, from the next row on, where it has an effect."""
        if self.weighs:
            before, self.weight = self.pace, weight
            self.ratio = self.ratio if ratio is None else ratio
            self.owed += (before - self.pace) * max(0, self.rows - self.warmup)

    def inserted(self, rows: int) -> None:
        """Count the rows of a parcel that entered the replay."""
        self.rows += rows
        self.usual += (rows - self.usual) / 16

    def sampled(self, samples: int) -> None:
        """Count the samples of an update."""
        self.samples += samples

    @property
    def ahead(self) -> float:
        """Samples that collection is ahead of learning; below 0 before the warm-up."""
        return self._ahead(self.rows)

    @property
    def may_update(self) -> bool:
        """True if a batch may be sampled now."""
        return self._ahead(self.rows) >= self.batch

    @property
    def is_within(self) -> bool:
        """True while some of the updates with a rollout are made, and others are not."""
        return bool(self.rollout) and self.samples % (self.ratio * self.rollout) != 0

    @property
    def room(self) -> int:
        """Rows that collection may bring before the next update: a parcel or more without one."""
        return self._room(self.rows)

    def fit(self, parcels: Iterable[int], at_most: int = sys.maxsize) -> int:
        """Return how many of these parcels, each by its rows, may enter the replay now.

        Each parcel is judged as if those before it were in the replay. Parcels without rows always
        fit. Counting stops after `at_most` rows, which bounds the memory of one insert.
        """
        count = entered = 0
        for rows in parcels:
            known = self.rows + entered
            blocked = rows > self._room(known) and self._ahead(known) >= self.batch
            if entered >= at_most or blocked:
                break
            entered += rows
            count += 1
        return count

    @property
    def missing(self) -> int:
        """Rows that the next update still needs."""
        if self.may_update:
            return 0
        needed = 1
        if math.isfinite(self.ratio):
            needed = math.ceil((self.samples + self.batch - self.owed) / self.pace)
        if self.rollout:
            needed += -needed % self.rollout
        return max(1, self.warmup + needed - self.rows)

    @property
    def held(self) -> float:
        """The replay ratio so far: samples drawn for each row after the warm-up."""
        return self.samples / (self.rows - self.warmup) if self.rows > self.warmup else 0.0

    @property
    def waiting(self) -> Waiting:
        """The side that waits now, and for how much."""
        if not self.may_update:
            return Waiting(Cause.ROWS if self.samples else Cause.WARMUP, self.missing)
        lacking = self.usual - self.room
        if lacking <= 0:
            return NO_WAIT
        return Waiting(Cause.UPDATES, math.ceil(lacking * self.pace / self.batch))

    def _ahead(self, rows: int) -> float:
        if math.isinf(self.ratio):
            return math.inf if rows > self.warmup else -math.inf
        if self.rollout:
            rows -= rows % self.rollout
        return self.pace * (rows - self.warmup) + self.owed - self.samples

    def _room(self, rows: int) -> int:
        if math.isinf(self.ratio):
            return sys.maxsize
        # A larger weight needs a wider tolerance, or both sides would wait for each other.
        tolerance = max(self.tolerance, self.batch + self.pace * self.parcel)
        allowed = (self.samples + tolerance - self.owed) / self.pace
        return max(0, math.floor(self.warmup - rows + allowed))


@dataclass(slots=True)
class CoreState:
    """The progress of training. Only the core writes it; schedules read it."""

    pacing: Pacing
    version: Version  # the newest publication
    steps: int = 0  # environment steps that entered the replay, and those of workers
    updates: int = 0
    published_steps: int = 0
    published_updates: int = 0
    paused: bool = False  # nothing is learned or collected until it is not
    publish_every: int = 0  # updates between two versions, as a command set it; 0: as configured

    @property
    def unpublished(self) -> int:
        """Updates that no version has yet."""
        return self.updates - self.published_updates
