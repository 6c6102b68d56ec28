"""Real learners and actors: started with captured output, watched over the feed, ended by pid.

Limits are in seconds of a quiet machine; `support.waiting` stretches them on a slow one.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from farflung.common.net import sockets
from farflung.common.net.address import Address, parse_address
from farflung.common.net.keys import ClientKeys
from farflung.common.process.errors import Refused
from farflung.common.protocol.topics import telemetry
from farflung.learner.observe.status import Status
from farflung.learner.observe.watch import decode
from support.forking import Forked, forks
from support.waiting import Deadline, eventually, took_at_most

BIN = Path(sys.executable).parent  # of the programs
DEFAULTS = {"FARFLUNG_LEARNER_EVALUATE_EVERY": "0", "FARFLUNG_LEARNER_UI": "lines"}  # here
PATIENCE_S = 60.0  # for anything that a healthy program does
LOOK_S = 0.02
NAMED_WITHIN_S = 5.0  # a user's mistake, from the start of the program
TAIL = 6000  # characters of output in a failure

Words = Callable[..., tuple[object, ...]]  # makes a command line out of a program and arguments


class Program:
    """One process of ours. Its output is in a file; its children are known and end with it."""

    def __init__(
        self,
        words: tuple[str, ...],
        folder: Path,
        number: int,
        variables: dict[str, str],
        *,
        fork: bool = False,
    ) -> None:
        """Start a program; with `fork` as a copy of a process that has imported all of it."""
        self.log = folder / f"{number:02}-{Path(words[0]).name}.log"
        command = [str(BIN / words[0]), *words[1:]]  # or a whole path
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("FARFLUNG_")
        }
        variables = inherited | {"OMP_NUM_THREADS": "1"} | variables
        self.process: subprocess.Popen[bytes] | Forked
        if fork:
            self.log.write_bytes(b"")
            self.process = forks(words[0]).start([*command, str(self.log)], folder, variables)
        else:
            self.process = _started(command, folder, self.log, variables)
        self._children: dict[int, psutil.Process] = {}
        self._started_at = time.time()

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self.process.pid

    @property
    def said(self) -> str:
        """All output so far."""
        return self.log.read_text(errors="replace")

    @property
    def running(self) -> bool:
        """Return False once it has ended."""
        return self.process.poll() is None

    def children(self) -> list[psutil.Process]:
        """Return the living processes that it has started."""
        if self.running:
            for child in psutil.Process(self.pid).children(recursive=True):
                self._children.setdefault(child.pid, child)
        return [child for child in self._children.values() if lives(child)]

    def until(self, condition: Callable[[], Any], what: str, within_s: float = PATIENCE_S) -> Any:
        """Wait until a condition is true; fail if this program ends first."""

        def look() -> Any:
            ended = not self.running  # before the look: its last output counts
            found = condition()
            assert found or not ended, f"{what}: exit code {self.process.returncode}"
            return found

        try:
            return eventually(look, what, within_s, LOOK_S)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{self.said[-TAIL:]}") from None

    def says(self, pattern: str, within_s: float = PATIENCE_S) -> re.Match[str]:
        """Wait until its output matches."""
        found: re.Match[str] = self.until(
            lambda: re.search(pattern, self.said), f"{self.log.name} to say {pattern!r}", within_s
        )
        return found

    def send(self, *signals: signal.Signals) -> None:
        """Send signals. It stands still until it has them all, so that it cannot end in between."""
        if len(signals) > 1:
            self.process.send_signal(signal.SIGSTOP)
            stopped = psutil.STATUS_STOPPED
            eventually(lambda: psutil.Process(self.pid).status() == stopped, "a standstill")
            signals = (*signals, signal.SIGCONT)
        for number in signals:
            self.process.send_signal(number)

    def ended(self, within_s: float = PATIENCE_S) -> int:
        """Wait for its end; return its exit code."""
        deadline = Deadline(within_s)
        while True:
            try:
                return self.process.wait(deadline.left_s)
            except subprocess.TimeoutExpired:
                assert not deadline.over or not self.running, (
                    f"{self.log.name} has not ended within {within_s:g} s of a quiet machine; "
                    f"it said:\n{self.said[-TAIL:]}"
                )

    def names(self, sentence: str, code: int | None = None) -> None:
        """Wait until it names a mistake as soon as promised: in its last line, if it ends."""
        if code is None:
            self.says(sentence)
            taken_s = time.time() - self._started_at
            assert self.running
        else:
            assert self.ended() == code, self.said
            assert sentence in self.said.splitlines()[-1], self.said
            assert "Traceback" not in self.said
            taken_s = self.log.stat().st_mtime - self._started_at
        assert took_at_most(taken_s, NAMED_WITHIN_S), f"{sentence!r} came after {taken_s:.1f} s"

    def cpu_s(self) -> float:
        """Return the processor time that it has used."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def wake_ups(self) -> int:
        """Return how often its threads have waited for something."""
        switches = re.compile(r"^voluntary_ctxt_switches:\s*(\d+)", re.MULTILINE)
        return sum(
            int(found[1])
            for status in Path(f"/proc/{self.pid}/task").glob("*/status")
            if (found := switches.search(status.read_text())) is not None
        )

    def resident_mb(self) -> float:
        """Return its resident memory."""
        return float(psutil.Process(self.pid).memory_info().rss / 1e6)

    def own_mb(self) -> float:
        """Return its resident memory without pages of files: how many are mapped is chance.

        An actor of a fresh installation has 12 MB more of them than one of an old installation.
        """
        status = Path(f"/proc/{self.pid}/status")
        if not status.exists():
            return self.resident_mb()
        found = re.search(r"RssAnon:\s*(\d+) kB", status.read_text())
        assert found is not None
        return int(found[1]) * 1024 / 1e6

    def goes_on(self, for_s: float) -> None:
        """Require that it runs for so long."""
        with suppress(subprocess.TimeoutExpired):
            code = self.process.wait(for_s)
            raise AssertionError(f"{self.log.name} ended with exit code {code}:\n{self.said}")

    def kill(self) -> None:
        """Kill it and its children."""
        family = self.children()
        if self.running:
            self.process.kill()
        self.process.wait()
        for child in family:
            if lives(child):
                child.kill()


class Learner(Program):
    """A learner that listens, seen through its own feed."""

    context: sockets.Context
    address: Address
    keys: ClientKeys | None = None  # to watch it with

    def listens(self) -> "Learner":
        """Wait until its ports are open."""
        found = self.says(r"listening: (?:actor|learner worker) (\S+).* \(feed on port (\d+)\)")
        self.address = parse_address(found[1], int(found[2]))
        return self

    def shows(self, condition: Callable[[Status], Any], within_s: float = PATIENCE_S) -> Status:
        """Wait for a status of which this is true, and return it."""
        latest: Status | None = None
        deadline = Deadline(within_s)
        with sockets.feed_subscriber(
            self.context, self.address, [telemetry()], keys=self.keys
        ) as feed:
            while self.running and not deadline.over:
                if feed.poll(200):
                    latest = _decoded(feed.recv_multipart()[-1])
                    if condition(latest):
                        return latest
        raise AssertionError(
            f"not within {within_s:g} s of a quiet machine; the last status was {latest}, "
            f"and it said:\n{self.said[-TAIL:]}"
        )

    def learns_on(self, within_s: float = PATIENCE_S) -> Status:
        """Wait until there are more steps and more updates than now."""
        before = self.shows(lambda status: True)
        return self.shows(
            lambda status: status.steps > before.steps and status.updates > before.updates, within_s
        )


class Shell:
    """Starts programs in a folder, and ends them all."""

    def __init__(self, folder: Path, context: sockets.Context, *, forks: bool = False) -> None:
        """Start learners and actors by forks where that makes no difference, if asked to."""
        self.folder, self.context, self.forks = folder, context, forks
        self._programs: list[Program] = []

    def start(
        self, *words: object, kind: type[Program] = Program, fork: bool = False, **variables: str
    ) -> Any:
        """Start a process of these words."""
        started = tuple(map(str, words)), self.folder, len(self._programs), variables
        program = kind(*started, fork=fork)
        self._programs.append(program)
        return program

    def learner(
        self, *flags: object, port: int = 0, on: Words | None = None, **variables: str
    ) -> Learner:
        """Start a learner; `listens()` waits until its ports are open.

        It has no evaluator unless flags ask for one.
        """
        common = ("--port", port, "--run-dir", self.folder / "runs")
        variables = DEFAULTS | variables
        fork = self.forks and on is None
        words = (on or here)("learner", *common, *flags)
        made: Learner = self.start(*words, kind=Learner, fork=fork, **variables)
        made.context = self.context
        return made

    def actor(
        self, address: Address, *flags: object, on: Words | None = None, **variables: str
    ) -> Program:
        """Start an actor that dials this address."""
        words = (on or here)("actor", address, "--feed-port", address.feed_port, *flags)
        fork = self.forks and on is None
        made: Program = self.start(*words, fork=fork, **variables)
        return made

    def close(self) -> None:
        """End everything that was started here."""
        for program in self._programs:
            program.kill()


def _started(
    command: list[str], folder: Path, log: Path, variables: dict[str, str]
) -> "subprocess.Popen[bytes]":
    """Start a process with its output in a file, and nothing to read."""
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=variables,
            start_new_session=True,
        )


def here(program: str, *words: object) -> tuple[object, ...]:
    """Return the command line of a program on this host."""
    return program, *words


def lives(process: psutil.Process) -> bool:
    """Return True unless a process has ended, whether or not its parent knows."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _decoded(frame: bytes) -> Status:
    try:
        return decode(frame)
    except Refused as refusal:
        raise AssertionError(f"a status that cannot be read: {refusal}") from refusal
