"""Learners and actors by a fork: they begin as copies of a process that has imported all of it.

The imports of a learner take 1.3 s of processor time, those of an actor 0.4 s, and tests start
more than a hundred of each. A worker has a process that forks for each of both roles: that of
actors has no torch. A copy is a process like any other, with its own number, signals and end. What
belongs to a start itself (words of the command line, variables and memory as the system sees them)
is tested with programs that begin as a user's do.

This file is also the program of the process that forks. It reads a line of JSON for each start and
answers with the number of the copy, and later with the way it ended. A copy stays in the system's
table until its end was seen here, so no signal can reach another process with its number.
"""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

WORDS = ["-P", __file__]  # -P: as with the command `learner`, this folder hides no package
READ_BYTES = 1 << 16
BOTH = ("gymnasium", "zmq", "cyclopts", "psutil", "farflung.actor.connection.policies")
# Modules of this tree: these import nine in ten of those that a run needs.
IMPORTED = {
    "actor": (
        *BOTH,
        "farflung.actor.main",
        "farflung.actor.recording",
        "farflung.actor.upkeep",
        "farflung.actor.worlds.families",
    ),
    "learner": (
        *BOTH,
        "torch",
        "safetensors.torch",
        "rich.live",
        "tensorboard.compat.proto.event_pb2",
        "tensorboard.summary.writer.record_writer",
        "farflung.learner.core.spec",
        "farflung.learner.demonstrations.mixing",
        "farflung.learner.main",
        "farflung.learner.observe.metrics",
        "farflung.learner.observe.time_split",
        "farflung.learner.storage.archiver",
        "farflung.learner.transport.network_thread",
    ),
}


class Forked:
    """A process with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, forks: "Forks", number: int, pid: int, words: list[str]) -> None:
        self.pid, self.args = pid, words
        self.returncode: int | None = None
        self._forks, self._number = forks, number

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        if self.returncode is None:
            self.returncode = self._forks.ended(self._number)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; raise `TimeoutExpired` if it does not come."""
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left_s = 1.0 if end is None else end - time.monotonic()
            if left_s <= 0:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self._forks.look(min(left_s, 1.0))
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Forks:
    """The process that forks for a role, as this one sees it. It ends when this one does."""

    def __init__(self, role: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *WORDS, role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        self._starts, self._unread = 0, b""
        self._pids: dict[int, int] = {}  # by the number of the start
        self._codes: dict[int, int] = {}

    def start(self, words: list[str], folder: Path, variables: Mapping[str, str]) -> Forked:
        """Start a program in a folder; the last word is the file of its output."""
        number, self._starts = self._starts, self._starts + 1
        self._say(start=number, words=words, folder=str(folder), variables=dict(variables))
        while number not in self._pids:
            assert self._process.poll() is None, "the process that forks has ended"
            self.look(1.0)
        return Forked(self, number, self._pids[number], words)

    def ended(self, number: int) -> int | None:
        """Return the exit code of a start once it has ended, and let the system forget it."""
        self.look(0.0)
        code = self._codes.pop(number, None)
        if code is not None:
            self._say(forget=self._pids[number])
        return code

    def look(self, within_s: float) -> None:
        """Take in what has come; wait for something at most so long."""
        assert self._process.stdout is not None
        out = self._process.stdout.fileno()
        while select.select([out], [], [], within_s)[0]:
            read = os.read(out, READ_BYTES)
            if not read:
                raise AssertionError("the process that forks has ended")
            *lines, self._unread = (self._unread + read).split(b"\n")
            for line in lines:
                found = json.loads(line)
                if "code" in found:
                    self._codes[found["start"]] = found["code"]
                else:
                    self._pids[found["start"]] = found["pid"]
            within_s = 0.0

    def close(self) -> None:
        """End it. Copies that still run go on."""
        self._process.communicate()

    def _say(self, **words: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words).encode() + b"\n")
        self._process.stdin.flush()


@cache
def forks(role: str) -> Forks:
    """Return the process that forks learners or actors for this one."""
    made = Forks(role)
    atexit.register(made.close)
    return made


def serve() -> dict[str, Any] | None:
    """Fork until the standard input ends. Return what to run in a copy, and None in the end."""
    unread, running = b"", dict[int, tuple[int, int]]()  # by descriptor: a start, and its process
    while True:
        ready, _, _ = select.select([0, *running], [], [])
        for descriptor in ready:
            if descriptor != 0:
                number, pid = running.pop(descriptor)
                os.close(descriptor)
                tell(start=number, code=exit_code(pid))
                continue
            read = os.read(0, READ_BYTES)
            if not read:
                return None
            *lines, unread = (unread + read).split(b"\n")
            for line in lines:
                wanted = json.loads(line)
                if "forget" in wanted:
                    os.waitpid(wanted["forget"], 0)
                    continue
                pid = os.fork()
                if not pid:
                    for other in running:
                        os.close(other)
                    return wanted
                running[os.pidfd_open(pid)] = wanted["start"], pid
                tell(start=wanted["start"], pid=pid)


def exit_code(pid: int) -> int:
    """Return the exit code of a process that has ended, and leave it in the system's table."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def tell(**words: int) -> None:
    """Write a line for the process that asked."""
    os.write(1, json.dumps(words).encode() + b"\n")


def become(wanted: dict[str, Any]) -> None:
    """Become the process that was asked for, as `subprocess.Popen` starts one."""
    os.setsid()
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["variables"])
    *words, log = wanted["words"]
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, place in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, place)
    for descriptor in (output, nothing):
        os.close(descriptor)
    sys.argv[:] = words
    # As those of a command, which Python reads when it starts.
    sys.path[:0] = [str(Path(words[0]).parent), *path_of(wanted["variables"])]


def path_of(variables: Mapping[str, str]) -> list[str]:
    """Return the folders of PYTHONPATH."""
    return [folder for folder in variables.get("PYTHONPATH", "").split(os.pathsep) if folder]


def main(role: str) -> None:
    """Import once what takes long, and run a learner or an actor in each copy.

    onnxruntime is not among it: its import starts a thread, and a copy has only the one that forks.
    """
    for name in IMPORTED[role]:
        import_module(name)
    threads = len([*Path("/proc/self/task").iterdir()])
    assert threads == 1, f"a copy would lack {threads - 1} threads"
    wanted = serve()
    if wanted is not None:
        become(wanted)
        getattr(import_module("farflung.__main__"), role)()


if __name__ == "__main__":
    main(sys.argv[1])
