"""The processes of trials: ordinary `learner` commands that end with their sweep.

A sweep that is killed closes the standard input of its learners, which then end after a last
checkpoint. One that hangs is ended by the next sweep, by the number in the lock that it holds.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from farflung.common.process.lifecycle import Stop
from farflung.learner.local.children import last_line
from farflung.learner.storage.run_folder import LOCK, is_locked

PATIENCE_S = 60.0  # for a learner's last checkpoint
LOOK_S = 0.1


class Process:
    """The learner of one run."""

    def __init__(self, command: list[str], log: Path, environment: Mapping[str, str]) -> None:
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - the command is our own
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={"OMP_NUM_THREADS": "1", **environment},
                start_new_session=True,  # Ctrl-C is for the sweep, which then ends its trials
            )

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it works."""
        return self._process.poll()

    @property
    def word(self) -> str:
        """The end of a process that failed: its code and its last line."""
        code = self.exit_code
        if code is not None and code < 0:
            return f"ended by {signal.Signals(-code).name}"
        return f"exit code {code}: {last_line(self._log)}"

    def stop(self) -> None:
        """Ask it to end, with a last checkpoint."""
        self._process.terminate()

    def kill(self) -> None:
        """End it now, and what it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Release it once it has ended."""
        if self._process.stdin is not None:
            self._process.stdin.close()


def learner(*words: str) -> list[str]:
    """Return the command line of a learner that ends with this process."""
    # -P: no folder of the user may hide our packages.
    return [sys.executable, "-P", "-m", "farflung", "learner", "--until-stdin-closes", *words]


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
