"""A step that hangs: the thread that watches it tells learners, at first and before the end."""

import logging
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from farflung.actor.connection.port import Connections
from farflung.actor.worlds import at_once

log = logging.getLogger(__name__)

WORLDS = Path(__file__).parent / "worlds"
FRAMES = 8  # of a hang that is in no environment
HANGS_S, AGAIN_S = 5.0, 5.0  # of one step, until it is suspect; between two reports of it
LONGER = 5.0  # times the longest step before: until then it may be a usual one


class Suspicion:
    """Suspects a step that takes much longer than those before. For the thread that watches."""

    def __init__(self, connection: Connections) -> None:
        self._connection = connection
        self._told_s = 0.0  # of the present step

    def look(self, seconds: float) -> None:
        """Take the seconds in which no step has ended, and report them if they are many."""
        work = self._connection.work
        if seconds < max(HANGS_S, LONGER * work.longest_step_s):
            work.hangs_s = self._told_s = 0.0
            return
        work.hangs_s = seconds
        if self._told_s and seconds < self._told_s + AGAIN_S:
            return
        if not self._told_s:
            last = from_world(stack_of_step())[-1]
            where = f"{last.filename}:{last.lineno}"
            log.warning("an environment step has taken %.0f s so far, at %s", seconds, where)
        self._told_s = seconds
        self._connection.hangs()


def last_words(tell: Callable[[str], object], sentence: str) -> None:
    """Tell the learner in which line a step hangs, from a thread that watches it."""
    tell("".join(traceback.format_list(from_world(stack_of_step()))) + sentence)


def stack_of_step() -> traceback.StackSummary:
    """Return the stack of the step that runs, the innermost frame last.

    It is the main thread's, or that of the first of the environments' threads that is not idle.
    """
    frames = sys._current_frames()
    others = [each.ident for each in threading.enumerate() if each.name.startswith(at_once.NAME)]
    busy = [
        frame
        for frame in (frames.get(ident or 0) for ident in others)
        if frame is not None and frame.f_code is not at_once.idle.__code__
    ]
    main = frames.get(threading.main_thread().ident or 0)
    return traceback.extract_stack(busy[0] if busy else main)


def from_world(stack: Sequence[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Return the frames from the last one of our worlds on: the rest is an environment's."""
    ours = [at for at, frame in enumerate(stack) if Path(frame.filename).parent == WORLDS]
    return list(stack[ours[-1] if ours else -FRAMES :])
