"""Waiting for work that another thread, process or machine does.

Limits are in seconds of a quiet machine. One that runs out grows by as much as this machine is
slower now, so that a test fails because of a fault and never because of other work.
"""

import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import zmq

from support.family import kill_below
from support.machine import slowness

PATIENCE_S = 10.0  # for threads of this process
LOOK_S = 0.005


class Deadline:
    """A limit that begins now."""

    def __init__(self, within_s: float) -> None:
        self.within_s = within_s
        self._began = time.monotonic()
        self._end = self._began + within_s

    @property
    def left_s(self) -> float:
        """Seconds until the limit is to be looked at again."""
        return max(0.0, self._end - time.monotonic())

    @property
    def over(self) -> bool:
        """Return True once the limit is over, also at the speed that this machine has now."""
        if self.left_s:
            return False
        self._end = self._began + self.within_s * slowness().wall
        return not self.left_s


def eventually(
    condition: Callable[[], Any],
    what: str = "it",
    within_s: float = PATIENCE_S,
    look_s: float = LOOK_S,
) -> Any:
    """Check a condition until it is true and return its value; fail after `within_s`."""
    deadline, pause, last = Deadline(within_s), threading.Event(), False
    while not (found := condition()):
        assert not last, f"waited {within_s:g} s of a quiet machine for {what}"
        last = deadline.over  # the time of measuring counts: check once more
        pause.wait(look_s)
    return found


def readable(socket: "zmq.Socket[bytes]", within_s: float = PATIENCE_S) -> bool:
    """Wait until a socket has a message; return False if none comes."""
    deadline = Deadline(within_s)
    while not socket.poll(round(1000 * deadline.left_s) + 1):
        if deadline.over:
            return False
    return True


def run_to_end(
    command: Sequence[object], within_s: float = 60.0, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a process, capture its text and wait for its end; kill it and fail after `within_s`.

    If the wait itself is ended, as by Ctrl-C, the process and all that it started are killed.
    """
    deadline, words = Deadline(within_s), [str(word) for word in command]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    with subprocess.Popen(words, **pipes) as process:
        while True:
            try:
                output, errors = process.communicate(timeout=deadline.left_s)
                return subprocess.CompletedProcess(words, process.returncode, output, errors)
            except subprocess.TimeoutExpired:
                if deadline.over and process.poll() is None:
                    process.kill()
                    output, errors = process.communicate()
                    raise AssertionError(
                        f"{words} ran for over {within_s:g} s of a quiet machine:\n{output}{errors}"
                    ) from None
            except BaseException:
                kill_below(process.pid)
                process.kill()
                raise


def took_at_most(taken_s: float, limit_s: float) -> bool:
    """Compare a time by the clock with a limit of a quiet machine."""
    return taken_s <= limit_s or taken_s <= limit_s * slowness().wall


def used_at_most(processor_s: float, limit_s: float) -> bool:
    """Compare processor time with a limit of a quiet machine."""
    return processor_s <= limit_s or processor_s <= limit_s * slowness().processor


class Clock:
    """Time that advances by `tick_s` at each reading, and by as much as a caller waits."""

    def __init__(self, tick_s: float = 0.0) -> None:
        self.now, self._tick_s = 100.0, tick_s

    def __call__(self) -> float:
        self.now += self._tick_s
        return self.now

    def wait(self, seconds: float) -> None:
        """Advance by so much."""
        self.now += seconds
