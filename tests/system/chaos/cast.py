"""The processes of a chaos run: they are ended by pid and started again at once."""

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from support.family import kill_below
from support.waiting import Deadline, eventually

ROOT = Path(__file__).parents[3]
PATHS = os.pathsep.join([str(ROOT), str(ROOT / "tests")])  # worlds of tests are in the second
TOLERATED = (0, -signal.SIGKILL, -signal.SIGTERM)  # SIGTERM may come before its handler
ENDS_WITHIN_S = 30.0
LAST_WORDS = 2_000  # characters of a log


@dataclass
class Member:
    """One process and its restarts."""

    name: str
    role: str
    folder: Path
    words: Callable[[int], Sequence[object]]  # of the command of the n-th start
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    ending: Deadline | None = None  # begins when SIGTERM or SIGKILL is sent
    stopped: bool = False
    surprises: list[str] = field(default_factory=list)  # ends that no fault explains

    @property
    def log(self) -> Path:
        """The output of all its starts."""
        return self.folder / f"{self.name}.log"

    def start(self) -> None:
        """Start the process."""
        self.starts += 1
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("FARFLUNG_")
        }
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *map(str, self.words(self.starts))],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=inherited | {"PYTHONPATH": PATHS, "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
        self.ending, self.stopped = None, False

    def send(self, number: signal.Signals) -> None:
        """Send it a signal if it runs."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM) and self.ending is None:
            self.ending = Deadline(ENDS_WITHIN_S)
        if number in (signal.SIGSTOP, signal.SIGCONT):
            self.stopped = number == signal.SIGSTOP

    def tend(self) -> bool:
        """Start it again if it has ended, and note how it ended; return whether it was started."""
        if self.process is None:
            return False
        code = self.process.poll()
        if code is None:
            self._hurry()
            return False
        self._judge(code)
        self.start()
        return True

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it and do not start it again. What it has started dies with it at SIGKILL."""
        if self.process is None:
            return
        self.send(signal.SIGCONT)
        if number == signal.SIGKILL:
            kill_below(self.process.pid)
        self.send(number)
        try:
            self._judge(_wait(self.process))
        except AssertionError:
            self._note(f"did not end within {ENDS_WITHIN_S:g} s of {number.name}")
            self.process.kill()
            self.process.wait()
        self.process = None

    def _hurry(self) -> None:
        if self.ending is not None and not self.stopped and self.ending.over:
            self._note(f"did not end within {ENDS_WITHIN_S:g} s of its signal")
            self.send(signal.SIGKILL)
            self.ending = Deadline(ENDS_WITHIN_S)

    def _judge(self, code: int) -> None:
        if self.ending is None or code not in TOLERATED:
            self._note(f"start {self.starts} ended with exit code {code}")

    def _note(self, what: str) -> None:
        output = self.log.read_text(errors="replace")[-LAST_WORDS:]
        self.surprises.append(f"{self.name}: {what}; its output: ...{output}")


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a process that was told to end; fail if it does not."""
    eventually(lambda: process.poll() is not None, "the end of a process", ENDS_WITHIN_S)
    return int(process.returncode)


class Processes:
    """Learners, a broker in front of them, and actors on both paths, with files in a folder."""

    def __init__(
        self,
        folder: Path,
        learners: Sequence[Member],
        broker: Member,
        direct: Sequence[Member],
        relayed: Sequence[Member],
    ) -> None:
        self.folder, self.broker = folder, broker
        self.learners, self.direct, self.relayed = list(learners), list(direct), list(relayed)
        self.all = [*learners, broker, *direct, *relayed]

    def __enter__(self) -> Self:
        for member in self.all:
            member.start()
        return self

    def __exit__(self, *error: object) -> None:
        for member in self.all:
            member.end(signal.SIGKILL)

    @property
    def receipts(self) -> list[Path]:
        """The actors' files of acknowledgements, one for each start."""
        return sorted(self.folder.glob("*.receipts"))

    @property
    def surprises(self) -> list[str]:
        """Ends that no fault explains."""
        return [surprise for member in self.all for surprise in member.surprises]

    def of(self, role: str) -> list[Member]:
        """Return the members of a role."""
        return [member for member in self.all if member.role == role]

    def retire(self) -> None:
        """End all in order: actors first, so that learners receive their last messages."""
        for member in [*self.direct, *self.relayed, *self.learners, self.broker]:
            member.end()


class Cast(Processes):
    """One learner, a broker in front of it, and actors on both paths."""

    def __init__(
        self, folder: Path, *, direct: int = 2, relayed: int = 2, flags: Sequence[object] = ()
    ) -> None:
        self.run = folder / "runs" / "chaos"
        self.port, self.front = free_ports(2)
        learner, front = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.front}"
        super().__init__(
            folder,
            [Member("learner", "learner", folder, lambda start: self._learner(flags))],
            Member(
                "broker",
                "broker",
                folder,
                lambda start: ("farflung.broker.main", learner, "--port", self.front),
            ),
            [actor(folder, f"direct-{index}", "actor", learner) for index in range(direct)],
            [actor(folder, f"relayed-{index}", "relayed actor", front) for index in range(relayed)],
        )
        (self.learner,) = self.learners

    def _learner(self, flags: Sequence[object]) -> Sequence[object]:
        names = ("--name", "chaos", "--resume", "auto", "--keep-journal", "--ui", "lines")
        return ("farflung.learner.main", *names, "--port", self.port, "--evaluate-every", 0, *flags)


def actor(folder: Path, name: str, role: str, *words: object) -> Member:
    """Return an actor of these addresses and flags, each start of which has receipts of its own."""

    def command(start: int) -> Sequence[object]:
        receipts = folder / f"{name}-{start:04}.receipts"
        own = ("--name", name, "--envs", 2, "--acknowledged", receipts)
        return ("farflung.actor.main", *words, *own)

    return Member(name, role, folder, command)


def free_ports(count: int) -> list[int]:
    """Return free ports, each with a free next one, below the kernel's range for connections."""
    found: list[int] = []
    for port in random.Random().sample(range(10_000, 32_000, 2), 200):
        with socket.socket() as one, socket.socket() as two:
            try:
                one.bind(("127.0.0.1", port))
                two.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("no free ports")
