"""Child processes, such as a learner's actors: they end with it, and are replaced when they die."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from farflung.common.net.address import Address
from farflung.common.process.config import variable
from farflung.common.process.errors import Exit
from farflung.learner.local.programs import last_line, program

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0  # a child that ran this long starts over with the first delay
# A child that ends with one of these would end so again: its world or its options are wrong.
HOPELESS = frozenset({Exit.USAGE, Exit.DATA, Exit.CONFIGURATION})
FAILURES, FAILURES_WITHIN_S = 8, 900.0  # of its own, so many in this time: it is given up
# A learner's file has options that an actor refuses, and its folder of keys is no key file. The
# learner chooses which actors evaluate and which end with the run.
NOT_INHERITED = frozenset(
    variable(role, key)
    for role in ("actor", "worker", "broker")
    for key in ("config", "evaluate", "keys", "once")
)
OF_LEARNERS = variable("learner", "")  # those of a team read them in its file, flags included


def _never() -> bool:
    return False


@dataclass(slots=True)
class Child:
    """One child and its replacements."""

    name: str
    command: tuple[str, ...]
    process: subprocess.Popen[bytes]
    started_at: float
    starts: int = 1
    due_at: float | None = None  # when its replacement starts; None while it runs
    delay_s: float = 0.0
    failed_at: tuple[float, ...] = ()  # lately; a signal from outside is no failure
    given_up: str = ""  # the sentence about its last end, if no replacement follows
    reached: Callable[[], bool] = _never  # its goal: so it has ended well
    done: bool = False  # it has

    @property
    def pid(self) -> int | None:
        """Return its process id while it runs."""
        return self.process.pid if self.due_at is None else None


class Children:
    """Starts children and replaces dead ones at each `tick`; logs to `<folder>/<name>.log`.

    A child that cannot succeed is given up: one that is started for ever only fills logs.
    """

    def __init__(self, folder: Path, path: Sequence[str] = ()) -> None:
        self._folder, self._path = folder, tuple(path)
        self.all: list[Child] = []
        folder.mkdir(parents=True, exist_ok=True)

    def add(
        self, name: str, command: Sequence[str], now: float, reached: Callable[[], bool] = _never
    ) -> Child:
        """Start a child. One that ends in order and has reached its goal is not replaced."""
        child = Child(name, tuple(command), self._spawn(name, command), now, reached=reached)
        self.all.append(child)
        return child

    def tick(self, now: float) -> list[str]:
        """Replace dead children, after longer and longer delays; return a sentence per death."""
        sentences = []
        for child in self.all:
            if child.given_up or child.done:
                continue
            if child.due_at is None and child.process.poll() is not None:
                child.done = child.process.returncode == 0 and child.reached()
                if child.done:
                    continue
                sentences.append(self._note_death(child, now))
            elif child.due_at is not None and now >= child.due_at:
                sentences += self._replace(child, now)
        return sentences

    def lost(self, spared: str) -> Child | None:
        """Return the last child if all are given up, apart from the spared one."""
        needed = [child for child in self.all if child.name != spared]
        return needed[-1] if needed and all(child.given_up for child in needed) else None

    def working(self, spared: str) -> int:
        """Return how many are not given up, apart from the spared one."""
        return sum(child.name != spared and not child.given_up for child in self.all)

    def stop(self, timeout_s: float) -> list[str]:
        """End all children and return the names of those that had to be killed.

        Close their standard input first, send SIGTERM at half time and SIGKILL at the end.
        """
        running = [child for child in self.all if child.due_at is None]
        for child in running:
            _close_input(child)
        deadline = time.monotonic() + timeout_s
        for moment, number in (
            (deadline - timeout_s / 2, signal.SIGTERM),
            (deadline, signal.SIGKILL),
        ):
            stubborn = [child for child in running if not _ended(child, moment)]
            for child in stubborn:
                _signal_group(child, number)
        for child in running:
            _ended(child, time.monotonic() + timeout_s)
            _signal_group(child, signal.SIGKILL)  # the processes that it may have started
        self.all.clear()
        return [child.name for child in stubborn]

    def __enter__(self) -> "Children":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(timeout_s=5.0)

    def _spawn(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with self._log(name).open("ab") as output:
            return subprocess.Popen(  # noqa: S603 - the command is our own
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=_environment(self._path),
                # Ctrl-C in the terminal must reach the learner only. The group can be ended as one.
                start_new_session=True,
            )

    def _replace(self, child: Child, now: float) -> list[str]:
        try:
            child.process = self._spawn(child.name, child.command)
        except OSError as error:  # no memory or no processes left: the learner goes on without it
            _wait_longer(child, now)
            retry = f"trying again in {child.delay_s:g} s"
            return [f"{child.name} cannot be started: {error}; {retry}"]
        child.started_at, child.due_at = now, None
        child.starts += 1
        return []

    def _note_death(self, child: Child, now: float) -> str:
        """Note a death and when the replacement is due."""
        code = child.process.returncode
        _close_input(child)
        _signal_group(child, signal.SIGKILL)
        if now - child.started_at >= LONGEST_DELAY_S:
            child.delay_s = 0.0
        _wait_longer(child, now)
        if code > 0:
            late = [moment for moment in child.failed_at if now - moment < FAILURES_WITHIN_S]
            child.failed_at = (*late, now)
        ending = (
            f"was ended by {signal.Signals(-code).name}"
            if code < 0
            else f"ended with exit code {code}"
        )
        line = last_line(self._log(child.name))
        if code in HOPELESS or len(child.failed_at) >= FAILURES:
            times = f", the {len(child.failed_at)}th failure" if code not in HOPELESS else ""
            child.given_up = (
                f"{child.name} {ending}{times}; it is not started again (its last line: {line})"
            )
            return child.given_up
        return f"{child.name} {ending}; restarting in {child.delay_s:g} s (its last line: {line})"

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


def actor_command(
    address: Address,
    name: str,
    *,
    environments: int,
    policy: str,
    imports: Sequence[str] = (),
    evaluate: bool = False,
    keys: str = "",
    role: str = "actor",
) -> tuple[str, ...]:
    """Return the command line of a local actor or worker."""
    command = [*program(role), str(address), "--feed-port", str(address.feed_port)]
    command += ["--name", name, "--envs", str(environments), "--policy", policy]
    for package in imports:
        command += ["--import", package]
    command += ["--keys", keys] if keys else []
    return (*command, "--evaluate") if evaluate else tuple(command)


def _environment(path: Sequence[str]) -> dict[str, str]:
    """Return this process's variables without those that are wrong for local actors.

    So FARFLUNG_ACTOR_STEP_TIMEOUT reaches a learner's own actors too, and FARFLUNG_WORKER_DEVICE
    its workers. Flags override the rest.
    With a path, actors find modules where this process does, and in the same order.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in NOT_INHERITED and not name.startswith(OF_LEARNERS)
    }
    modules = {"PYTHONPATH": os.pathsep.join(path)} if path else {}
    return {"OMP_NUM_THREADS": "1"} | inherited | modules


def _wait_longer(child: Child, now: float) -> None:
    child.delay_s = min(max(FIRST_DELAY_S, 2 * child.delay_s), LONGEST_DELAY_S)
    child.due_at = now + child.delay_s


def _close_input(child: Child) -> None:
    assert child.process.stdin is not None
    child.process.stdin.close()


def _ended(child: Child, until: float) -> bool:
    """Wait until a moment of `time.monotonic`, and return whether the child has ended."""
    try:
        child.process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _signal_group(child: Child, number: signal.Signals) -> None:
    """Send a signal to the child and to the processes that it started."""
    try:
        os.killpg(child.process.pid, number)
    except (ProcessLookupError, PermissionError):
        return  # all have ended
