"""Who takes part in a chaos run: real processes that are ended by pid and started again at once, as a supervisor would."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[3]
TOLERATED = (
    0,
    -signal.SIGKILL,
    -signal.SIGTERM,
)  # the last: asked to end before it could listen to that
ENDS_WITHIN_S = 30.0
LAST_WORDS = 2_000  # characters of a log


@dataclass
class Member:
    """One of the cast, through all of its lives."""

    name: str
    role: str
    folder: Path
    words: Callable[[int], Sequence[object]]  # of the n-th life's command
    process: subprocess.Popen[bytes] | None = None
    lives: int = 0
    started_at: float = 0.0
    ending_since: float | None = None  # SIGTERM or SIGKILL was sent
    stopped: bool = False
    surprises: list[str] = field(
        default_factory=list
    )  # it ended, or would not end, in a way that nobody asked for

    @property
    def log(self) -> Path:
        """What it says, all lives one after the other."""
        return self.folder / f"{self.name}.log"

    def start(self) -> None:
        """Begin a life."""
        self.lives += 1
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("FARFLUNG_")
        }
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *map(str, self.words(self.lives))],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=inherited | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
        self.started_at, self.ending_since, self.stopped = time.monotonic(), None, False

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it is there to receive one."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM) and self.ending_since is None:
            self.ending_since = time.monotonic()
        if number in (signal.SIGSTOP, signal.SIGCONT):
            self.stopped = number == signal.SIGSTOP

    def tend(self) -> bool:
        """Note how it ended, if it did, and start it again; gives whether it was started."""
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
        """End it for good."""
        if self.process is None:
            return
        self.send(signal.SIGCONT)
        self.send(number)
        try:
            self._judge(self.process.wait(ENDS_WITHIN_S))
        except subprocess.TimeoutExpired:
            self._note(f"did not end within {ENDS_WITHIN_S:g} s of {number.name}")
            self.process.kill()
            self.process.wait()
        self.process = None

    def _hurry(self) -> None:
        if (
            self.ending_since is not None
            and not self.stopped
            and time.monotonic() - self.ending_since > ENDS_WITHIN_S
        ):
            self._note(f"did not end within {ENDS_WITHIN_S:g} s of being asked")
            self.send(signal.SIGKILL)
            self.ending_since = time.monotonic()

    def _judge(self, code: int) -> None:
        if self.ending_since is None or code not in TOLERATED:
            self._note(f"life {self.lives} ended with exit code {code}")

    def _note(self, what: str) -> None:
        self.surprises.append(
            f"{self.name}: {what}; it said: ...{self.log.read_text(errors='replace')[-LAST_WORDS:]}"
        )


class Cast:
    """A learner, a broker in front of it, and actors on both paths. What is kept of them is in a folder."""

    def __init__(
        self, folder: Path, *, direct: int = 2, relayed: int = 2, flags: Sequence[object] = ()
    ) -> None:
        self.folder, self.run = folder, folder / "runs" / "chaos"
        self.port, self.front = free_ports(2)
        self.learner = Member("learner", "learner", folder, lambda life: self._learner(flags))
        self.broker = Member(
            "broker",
            "broker",
            folder,
            lambda life: ("farflung.broker.main", f"127.0.0.1:{self.port}", "--port", self.front),
        )
        self.direct = [
            self._actor(f"direct-{index}", "actor", self.port) for index in range(direct)
        ]
        self.relayed = [
            self._actor(f"relayed-{index}", "relayed actor", self.front) for index in range(relayed)
        ]
        self.all = [self.learner, self.broker, *self.direct, *self.relayed]

    def __enter__(self) -> "Cast":
        for member in self.all:
            member.start()
        return self

    def __exit__(self, *error: object) -> None:
        for member in self.all:
            member.end(signal.SIGKILL)

    @property
    def receipts(self) -> list[Path]:
        """What the actors were told is safe, a file for each life."""
        return sorted(self.folder.glob("*.receipts"))

    @property
    def surprises(self) -> list[str]:
        """What nobody asked for."""
        return [surprise for member in self.all for surprise in member.surprises]

    def of(self, role: str) -> list[Member]:
        """Everybody of a role."""
        return [member for member in self.all if member.role == role]

    def retire(self) -> None:
        """End everybody in good order: actors first, so that the learner hears their last words."""
        for member in [*self.direct, *self.relayed, self.learner, self.broker]:
            member.end()

    def _learner(self, flags: Sequence[object]) -> Sequence[object]:
        asked = (
            "--name",
            "chaos",
            "--resume",
            "auto",
            "--keep-journal",
            "--port",
            self.port,
            "--ui",
            "lines",
        )
        return ("farflung.learner.main", *asked, *flags)

    def _actor(self, name: str, role: str, port: int) -> Member:
        def words(life: int) -> Sequence[object]:
            receipts = self.folder / f"{name}-{life:04}.receipts"
            return (
                "farflung.actor.main",
                f"127.0.0.1:{port}",
                "--name",
                name,
                "--envs",
                2,
                "--acknowledged",
                receipts,
            )

        return Member(name, role, self.folder, words)


def free_ports(count: int) -> list[int]:
    """Pairs of neighbouring ports that are free, below those that the kernel gives to who dials out."""
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
