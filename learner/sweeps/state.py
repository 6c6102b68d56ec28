"""The next step of a trial, decided from what its runs show. No files, processes or clocks.

A trial is a run for each seed, one after the other. What is durable is in two places: the study
says which trials were begun and which are over, the folders of runs say how far each run is. So a
sweep that was killed at any moment decides the same as one that was not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from farflung.common.process.errors import Exit

RESTARTS = 2  # of a run that was killed or stopped by others
# Ends of a process after which the same run may go on; SIGTERM by hand ends with 0.
PASSING = frozenset({0, Exit.UNHEALTHY, Exit.DISK, Exit.AGAIN})


class Phase(Enum):
    """The phase of a run."""

    ABSENT = auto()  # it was never started
    WORKING = auto()  # its process lives
    CUT = auto()  # it ended before its goal, and may go on
    FINISHED = auto()
    FAILED = auto()  # it would fail again


@dataclass(frozen=True, slots=True)
class Seen:
    """A run as a sweep sees it."""

    phase: Phase
    value: float | None = None  # of the objective, so far
    word: str = ""  # why it ended
    starts: int = 0  # by this process of the sweep


@dataclass(frozen=True, slots=True)
class Start:
    """Start a run, or let it go on."""

    index: int  # of its seed


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for a run."""

    index: int


@dataclass(frozen=True, slots=True)
class Complete:
    """The trial has its figure."""

    value: float


@dataclass(frozen=True, slots=True)
class Fail:
    """The trial has no figure, and will have none."""

    reason: str


Step = Start | Wait | Complete | Fail


def phase(*, working: bool, there: bool, finished: bool, exit_code: int | None) -> Phase:
    """Return the phase of a run; the exit code is that of a process of this sweep, if it ended."""
    if working:
        return Phase.WORKING
    if finished:
        return Phase.FINISHED
    if exit_code is not None and exit_code >= 0 and exit_code not in PASSING:
        return Phase.FAILED
    return Phase.CUT if there or exit_code is not None else Phase.ABSENT


def decide(runs: Sequence[Seen]) -> Step:
    """Return the next step of a trial, from its runs in the order of their seeds."""
    values = []
    for index, run in enumerate(runs):
        if run.phase is Phase.WORKING:
            return Wait(index)
        if run.phase is Phase.FAILED:
            return Fail(run.word)
        if run.phase is Phase.CUT and run.starts > RESTARTS:
            return Fail(f"its run ended {run.starts} times before its goal: {run.word}")
        if run.phase is not Phase.FINISHED:
            return Start(index)
        if run.value is None:
            return Fail(
                "its run ended without a figure of the objective: more steps, or more evaluations"
            )
        values.append(run.value)
    return Complete(sum(values) / len(values))


def wanted(trials: int, begun: int, active: int, leaving: int, at_once: int) -> int:
    """Return how many trials are to begin now; one that leaves still has its place."""
    return max(0, min(trials - begun, at_once - active - leaving))


def hopeless(failed: int, others: int) -> bool:
    """Return True if all trials of this process failed, and more than chance explains."""
    return failed >= 3 and others == 0
