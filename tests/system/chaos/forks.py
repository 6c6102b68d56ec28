"""Learners that start within moments: a process with torch loaded forks one after the other.

`python -m chaos.forks WORDS…` reads a line for each start, forks a child that runs the learner's
command with these words, and answers with its pid and, once it has ended, with its exit code. Most
of the time of a start is the loading of packages; what a kill can harm is the same.
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from chaos.cast import PATHS, Member


class Forked:
    """One child, with what `Member` needs of a process."""

    def __init__(self, parent: "subprocess.Popen[str]") -> None:
        assert parent.stdin is not None
        self._parent, self.returncode = parent, -1
        self._ended = False
        parent.stdin.write("start\n")
        parent.stdin.flush()
        self.pid = self._number()

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""
        if not self._ended and select.select([self._parent.stdout], [], [], 0)[0]:
            self.wait()
        return self.returncode if self._ended else None

    def wait(self) -> int:
        """Wait for its end; return its exit code."""
        if not self._ended:
            self.returncode, self._ended = self._number(), True
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal. Its pid is its own until its exit code was read."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _number(self) -> int:
        assert self._parent.stdout is not None
        return int(self._parent.stdout.readline())


class Quick(Member):
    """A learner that is forked at each of its starts."""

    parent: "subprocess.Popen[str] | None" = None

    def start(self) -> None:
        """Start it; the first time, load its packages before."""
        self.starts += 1
        if self.parent is None:
            self.parent = loaded(self.words(1), self.folder, self.log)
        self.process = Forked(self.parent)  # type: ignore[assignment]
        self.ending, self.stopped = None, False

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it, and the process that forked it."""
        super().end(number)
        if self.parent is not None:
            self.parent.communicate()
            self.parent = None


def loaded(words: Sequence[object], folder: Path, log: Path) -> "subprocess.Popen[str]":
    """Start a process that forks a learner with these words for each line that it reads."""
    known = {name: text for name, text in os.environ.items() if not name.startswith("FARFLUNG_")}
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "chaos.forks", *map(str, words)],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            env=known | {"PYTHONPATH": PATHS + os.pathsep + HERE, "OMP_NUM_THREADS": "1"},
            text=True,
        )


HERE = str(Path(__file__).parents[1])  # where the package `chaos` is


def main(words: list[str]) -> None:
    """Fork a learner for each line, one at a time."""
    import onnxruntime  # noqa: F401 - loaded once, before all forks
    import pettingzoo  # noqa: F401
    import torch  # noqa: F401

    from farflung.common.process import lifecycle
    from farflung.learner import main as learner
    from farflung.learner import training  # noqa: F401

    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(2, 1)
            os._exit(lifecycle.main_guard("learner", lambda: learner.command(words)))
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
