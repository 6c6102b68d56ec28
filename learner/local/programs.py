"""Our programs as processes of a learner, a team or a sweep: how each begins, and how one ends."""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from farflung.common.process.lifecycle import Stop
from farflung.learner.storage.run_folder import LOCK, is_locked

PATIENCE_S = 60.0  # for a learner's last checkpoint
LOOK_S = 0.1


def program(role: str) -> tuple[str, ...]:
    """Return the beginning of the command line of a program that ends with this process."""
    # -P: no folder of the user may hide our packages; --import finds the current folder by itself.
    return (sys.executable, "-P", "-m", "farflung", role, "--until-stdin-closes")


def last_line(path: Path, most_bytes: int = 4096) -> str:
    """Return the last line of a log that is not empty."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - most_bytes))
            lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
    except OSError as error:
        return f"unknown, for {error}"
    return next((line for line in reversed(lines) if line), "nothing")


def end_survivor(
    run: Path, stop: Stop, say: Callable[[str], None], patience_s: float = PATIENCE_S
) -> None:
    """Wait until a learner of an earlier sweep has left a run; end it if it does not."""
    if not is_locked(run):
        return
    say(f"{run.name} is still held by a learner of an earlier sweep: waiting for its end")
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            say(f"{run.name} was not left within {patience_s:g} s: {number.name} to its learner")
            _signal_holder(run, number)
        for _ in range(round(patience_s / LOOK_S)):
            if not is_locked(run) or stop.wait(LOOK_S):
                return


def _signal_holder(run: Path, number: signal.Signals) -> None:
    """Send a signal to the process that holds the lock of a run, and to no other.

    Its number may pass to another process when it ends. A descriptor stays with the process: if the
    lock is still held once there is one, it is of the holder.
    """
    with suppress(OSError, ValueError):
        holder = int((run / LOCK).read_text())
        if not hasattr(os, "pidfd_open"):  # not Linux
            os.kill(holder, number)
            return
        descriptor = os.pidfd_open(holder)
        try:
            if is_locked(run) and int((run / LOCK).read_text()) == holder:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)
