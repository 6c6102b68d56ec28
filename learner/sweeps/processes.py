"""The processes of trials: ordinary `learner` commands that end with their sweep.

A sweep that is killed closes the standard input of its learners, which then end after a last
checkpoint. One that hangs is ended by the next sweep.
"""

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from farflung.learner.local.programs import last_line


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
