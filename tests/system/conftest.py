"""Real learners and actors for these tests: started with captured output, watched over the feed, and ended by pid whatever happens."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import zmq

from farflung.common.net import sockets
from farflung.common.net.address import Address, parse_address
from farflung.common.net.keys import ClientKeys
from farflung.common.process.errors import Refused
from farflung.common.protocol import wire
from farflung.common.protocol.topics import telemetry
from farflung.learner.observe.status import Status
from farflung.learner.observe.watch import decode

PATIENCE_S = 40.0  # for whatever a machine with other things to do may take; nothing waits so long where all is well
LOOK_S = 0.02
NAMED_WITHIN_S = 5.0  # a mistake, from the start of the program that it was made with
BUSY_S = 5.0  # more, where the machine has other things to do
MEASURED_S, MEASUREMENTS, IDLE_PERCENT = 3.0, 5, 2.0


class Program:
    """One process of ours. What it says is in a file; whatever it started itself is known, so that none of it can stay behind."""

    def __init__(
        self, words: tuple[str, ...], folder: Path, number: int, variables: dict[str, str]
    ) -> None:
        self.log = folder / f"{number:02}-{Path(words[0]).name}.log"
        command = [
            str(Path(sys.executable).parent / words[0]),
            *words[1:],
        ]  # beside our Python, unless it is a whole path
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("FARFLUNG_")
        }
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=inherited | {"OMP_NUM_THREADS": "1"} | variables,
                start_new_session=True,
            )
        self._children: dict[int, psutil.Process] = {}
        self._started_at = time.time()

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    @property
    def said(self) -> str:
        """Everything so far."""
        return self.log.read_text(errors="replace")

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def children(self) -> list[psutil.Process]:
        """The processes that it has started and that live."""
        if self.running:
            for child in psutil.Process(self.pid).children(recursive=True):
                self._children.setdefault(child.pid, child)
        return [child for child in self._children.values() if lives(child)]

    def says(self, pattern: str, within_s: float = PATIENCE_S) -> re.Match[str]:
        """Wait until what it said matches."""
        return wait(
            lambda: re.search(pattern, self.said),
            f"{self.log.name} to say {pattern!r}",
            within_s,
            self,
        )

    def send(self, *signals: signal.Signals) -> None:
        """Send signals, one right after the other."""
        for number in signals:
            self.process.send_signal(number)

    def ended(self, within_s: float = PATIENCE_S) -> int:
        """Wait for its end; gives its exit code."""
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.log.name} has not ended within {within_s:g} s; it said:\n{self.said}"
            ) from None

    def names(self, sentence: str, code: int | None = None) -> None:
        """Wait until it names a mistake, as soon as is promised: with its last words, and this exit code, or while it goes on."""
        if code is None:
            self.says(sentence)
            taken_s = time.time() - self._started_at
            assert self.running
        else:
            assert self.ended() == code, self.said
            assert sentence in self.said.splitlines()[-1], self.said
            assert "Traceback" not in self.said
            taken_s = self.log.stat().st_mtime - self._started_at
        assert taken_s < NAMED_WITHIN_S + (BUSY_S if os.getloadavg()[0] > 1 else 0), (
            f"{sentence!r} was named after {taken_s:.1f} s"
        )

    def cpu_s(self) -> float:
        """Processor time that it has used."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def resident_mb(self) -> float:
        """Its memory."""
        return float(psutil.Process(self.pid).memory_info().rss / 1e6)

    def goes_on(self, for_s: float) -> None:
        """Let it go on so long. It must not end meanwhile."""
        with suppress(subprocess.TimeoutExpired):
            raise AssertionError(
                f"{self.log.name} ended with exit code {self.process.wait(for_s)}; it said:\n{self.said}"
            )

    def kill(self) -> None:
        """End it and whatever it started, as brutally as can be."""
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
        found = self.says(r"listening: actor (\S+).* \(feed on port (\d+)\)")
        self.address = parse_address(found[1], int(found[2]))
        return self

    def shows(self, condition: Callable[[Status], Any], within_s: float = PATIENCE_S) -> Status:
        """Wait until it tells a status of which this is true; gives that."""
        latest: Status | None = None
        end = time.monotonic() + within_s
        with sockets.feed_subscriber(
            self.context, self.address, [telemetry()], keys=self.keys
        ) as feed:
            while time.monotonic() < end and self.running:
                if feed.poll(200):
                    try:
                        latest = decode(feed.recv_multipart()[-1])
                    except Refused as refusal:
                        raise AssertionError(
                            f"a status that cannot be read: {refusal}"
                        ) from refusal
                    if condition(latest):
                        return latest
        raise AssertionError(
            f"not within {within_s:g} s; the last status was {latest}, and it said:\n{self.said[-6000:]}"
        )

    def learns_on(self, within_s: float = PATIENCE_S) -> Status:
        """Wait until there were more steps and more updates than now."""
        before = self.shows(lambda status: True)
        return self.shows(
            lambda status: status.steps > before.steps and status.updates > before.updates, within_s
        )


Words = Callable[
    ..., tuple[object, ...]
]  # of a program and its arguments: what starts it where it is to run


def here(program: str, *words: object) -> tuple[object, ...]:
    """On this host."""
    return program, *words


class Shell:
    """Starts programs in a folder, and ends them all."""

    def __init__(self, folder: Path, context: sockets.Context) -> None:
        self.folder = folder
        self.context = context
        self._programs: list[Program] = []

    def start(self, *words: object, kind: type[Program] = Program, **variables: str) -> Any:
        """A process of these words."""
        program = kind(tuple(map(str, words)), self.folder, len(self._programs), variables)
        self._programs.append(program)
        return program

    def learner(self, *flags: object, port: int = 0, on: Words = here, **variables: str) -> Learner:
        """A learner that is on its way; `listens()` waits for it."""
        common = ("--port", port, "--run-dir", self.folder / "runs", "--ui", "lines")
        made: Learner = self.start(*on("learner", *common, *flags), kind=Learner, **variables)
        made.context = self.context
        return made

    def actor(
        self, address: Address, *flags: object, on: Words = here, **variables: str
    ) -> Program:
        """An actor that dials this address."""
        made: Program = self.start(
            *on("actor", address, "--feed-port", address.feed_port, *flags), **variables
        )
        return made

    def close(self) -> None:
        """End everything that was started here."""
        for program in self._programs:
            program.kill()


class Tap:
    """Stands between actors and a learner's experience port, passes everything on, and reads along."""

    def __init__(self, context: sockets.Context, learner: Address) -> None:
        self.messages: list[
            tuple[float, Any]
        ] = []  # when, and a Hello, Report, Bye, or the Envelope of a parcel
        self.frames: dict[
            tuple[int, int], set[int]
        ] = {}  # checksums by incarnation and sequence: each number has one
        self._in, self._out = context.socket(zmq.PULL), context.socket(zmq.PUSH)
        self.address = Address(
            learner.host,
            self._in.bind_to_random_port("tcp://127.0.0.1", 10_000, 32_000),
            learner.feed_port,
        )
        self._out.connect(learner.experience)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tap")
        self._thread.start()

    def newest(self, kind: type, actor: str) -> Any:
        """The last message of a kind from an actor, or None."""
        return next(
            (
                word
                for _, word in reversed(self.messages)
                if isinstance(word, kind) and word.actor == actor
            ),
            None,
        )

    def close(self) -> None:
        """Pass on no more."""
        self._closing.set()
        self._thread.join()
        for socket in (self._in, self._out):
            socket.close(linger=0)

    def _run(self) -> None:
        while not self._closing.is_set():
            if self._in.poll(50):
                frame = self._in.recv()
                self._read(frame)
                with suppress(
                    zmq.Again
                ):  # a learner that is away for long: what is lost here is sent again
                    self._out.send(frame, zmq.NOBLOCK)

    def _read(self, frame: bytes) -> None:
        opened = wire.open_frame(frame)
        word = wire.read_envelope(opened) if opened.kind is wire.Kind.PARCEL else wire.read(opened)
        self.messages.append((time.monotonic(), word))
        if isinstance(word, wire.Envelope):
            self.frames.setdefault((word.incarnation, word.sequence), set()).add(zlib.crc32(frame))


def lives(process: psutil.Process) -> bool:
    """Whether it is there, and not only waiting to be buried by its parent."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait(
    condition: Callable[[], Any],
    what: str,
    within_s: float = PATIENCE_S,
    program: Program | None = None,
) -> Any:
    """Look until it is true; gives what it gave. A program that ends meanwhile, or too long a time, is a failure."""
    end, pause = time.monotonic() + within_s, threading.Event()
    while True:
        over = program is not None and not program.running  # before the look: its last words count
        if found := condition():
            return found
        if over or time.monotonic() > end:
            said = program.said[-6000:] if program else ""
            why = (
                f"exit code {program.process.returncode}"
                if over and program
                else f"{within_s:g} s are over"
            )
            raise AssertionError(f"waited for {what}: {why}\n{said}")
        pause.wait(LOOK_S)


@pytest.fixture(scope="session")
def context() -> Iterator[sockets.Context]:
    """The context of all watchers."""
    context = sockets.context()
    yield context
    context.destroy(linger=0)


@pytest.fixture
def shell(tmp_path: Path, context: sockets.Context) -> Iterator[Shell]:
    """Starts programs for one test."""
    shell = Shell(tmp_path, context)
    yield shell
    shell.close()


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory, context: sockets.Context) -> Iterator[Shell]:
    """Starts programs that tests share."""
    shell = Shell(tmp_path_factory.mktemp("house"), context)
    yield shell
    shell.close()


@pytest.fixture(scope="session")
def shared(house: Shell) -> Learner:
    """A learner that many tests bring their actors to. Each test takes its actors away again, and none ends it."""
    return house.learner("--name", "shared", "--warmup", 200, "--replay-ratio", 2).listens()


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Look until something is true."""
    return wait


@pytest.fixture
def idle(capsys: pytest.CaptureFixture[str]) -> Callable[..., bool]:
    """Whether programs use next to nothing of a processor, each at least in one of some measurements.

    What is busy beside them makes each of their wake-ups dearer.
    """

    def look(*programs: Program) -> bool:
        least = [100.0] * len(programs)
        for _ in range(MEASUREMENTS):
            before = [program.cpu_s() for program in programs]
            time.sleep(MEASURED_S)  # the measurement itself
            shares = [
                100 * (program.cpu_s() - used) / MEASURED_S
                for program, used in zip(programs, before, strict=True)
            ]
            least = [min(pair) for pair in zip(least, shares, strict=True)]
            if max(least) < IDLE_PERCENT:
                break
        with capsys.disabled():
            names = ", ".join(
                f"{program.log.name} {share:.1f} %"
                for program, share in zip(programs, least, strict=True)
            )
            print(f"\nprocessor used by idle programs: {names}", end="")
        return max(least) < IDLE_PERCENT

    return look


@pytest.fixture
def tap(context: sockets.Context) -> Iterator[Callable[[Address], Tap]]:
    """Reads along between actors and a learner."""
    taps: list[Tap] = []

    def open_tap(learner: Address) -> Tap:
        taps.append(Tap(context, learner))
        return taps[-1]

    yield open_tap
    for opened in taps:
        opened.close()


@pytest.fixture(scope="session")
def habitats() -> dict[str, str]:
    """Variables with which `--import habitats` works."""
    return {
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        )
    }


@pytest.fixture(scope="module")
def free_address(context: sockets.Context) -> Address:
    """Two free ports for a learner that is to come back to them."""
    address, *listening = sockets.listen(context, Address("127.0.0.1", 0, 0), 1)
    for socket in listening:
        socket.close(linger=0)
    return address
