"""Local actors: ordinary `actor` processes that end with the learner and are replaced when they die."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from farflung.common.net.address import Address
from farflung.common.process.config import variable

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0  # also: who lived this long begins again with the first delay
# A learner's file has options that an actor refuses, its folder of keys is no key file; who evaluates and who ends with a run is the
# learner's choice here.
NOT_INHERITED = frozenset(variable("actor", key) for key in ("config", "evaluate", "keys", "once"))


@dataclass(slots=True)
class Child:
    """One child and its replacements."""

    name: str
    command: tuple[str, ...]
    process: subprocess.Popen[bytes]
    started_at: float
    starts: int = 1
    due_at: float | None = None  # when its replacement starts; None while it lives
    delay_s: float = 0.0

    @property
    def pid(self) -> int | None:
        """Its process, while it lives."""
        return self.process.pid if self.due_at is None else None


class Children:
    """Starts children and looks after them whenever `tick` is called. What they write is in `<folder>/<name>.log`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.all: list[Child] = []
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, name: str, command: Sequence[str], now: float) -> Child:
        """Start one."""
        child = Child(name, tuple(command), self._spawn(name, command), now)
        self.all.append(child)
        return child

    def tick(self, now: float) -> list[str]:
        """Replace who has died, later each time; gives a sentence for each death."""
        sentences = []
        for child in self.all:
            if child.due_at is None and child.process.poll() is not None:
                sentences.append(self._bury(child, now))
            elif child.due_at is not None and now >= child.due_at:
                sentences += self._replace(child, now)
        return sentences

    def stop(self, timeout_s: float) -> list[str]:
        """End all of them: by closing their standard input, then SIGTERM at half time, then SIGKILL; names those that had to be killed."""
        living = [child for child in self.all if child.due_at is None]
        for child in living:
            _close_input(child)
        deadline = time.monotonic() + timeout_s
        for moment, number in (
            (deadline - timeout_s / 2, signal.SIGTERM),
            (deadline, signal.SIGKILL),
        ):
            stubborn = [child for child in living if not _ended(child, moment)]
            for child in stubborn:
                _signal_group(child, number)
        for child in living:
            _ended(child, time.monotonic() + timeout_s)
            _signal_group(child, signal.SIGKILL)  # what it may have started itself
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
                env=_environment(),
                start_new_session=True,  # Ctrl-C in the learner's terminal reaches the learner alone, and the group can be ended as one
            )

    def _replace(self, child: Child, now: float) -> list[str]:
        try:
            child.process = self._spawn(child.name, child.command)
        except (
            OSError
        ) as error:  # no memory, no processes left: the learner goes on without it for a while
            _wait_longer(child, now)
            return [
                f"{child.name} cannot be started: {error}; the next attempt is in {child.delay_s:g} s"
            ]
        child.started_at, child.due_at = now, None
        child.starts += 1
        return []

    def _bury(self, child: Child, now: float) -> str:
        """Note a death and when the replacement is due."""
        code = child.process.returncode
        _close_input(child)
        _signal_group(child, signal.SIGKILL)
        if now - child.started_at >= LONGEST_DELAY_S:
            child.delay_s = 0.0
        _wait_longer(child, now)
        ending = (
            f"was ended by {signal.Signals(-code).name}"
            if code < 0
            else f"ended with exit code {code}"
        )
        return f"{child.name} {ending}; another starts in {child.delay_s:g} s (its last line: {last_line(self._log(child.name))})"

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
) -> tuple[str, ...]:
    """The command line of a local actor."""
    # -P: no folder of the user's may hide our packages; --import looks in the current folder by itself.
    command = [
        sys.executable,
        "-P",
        "-m",
        "farflung",
        "actor",
        str(address),
        "--feed-port",
        str(address.feed_port),
    ]
    command += [
        "--name",
        name,
        "--envs",
        str(environments),
        "--policy",
        policy,
        "--until-stdin-closes",
    ]
    for package in imports:
        command += ["--import", package]
    command += ["--keys", keys] if keys else []
    return (*command, "--evaluate") if evaluate else tuple(command)


def last_line(path: Path, most_bytes: int = 4096) -> str:
    """The last line of a log that says something."""
    with path.open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - most_bytes))
        lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "nothing")


def _environment() -> dict[str, str]:
    """Return this process's variables without those that are wrong for local actors.

    So FARFLUNG_ACTOR_STEP_TIMEOUT reaches a learner's own actors, too. Flags override the rest.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    return {"OMP_NUM_THREADS": "1"} | inherited


def _wait_longer(child: Child, now: float) -> None:
    child.delay_s = min(max(FIRST_DELAY_S, 2 * child.delay_s), LONGEST_DELAY_S)
    child.due_at = now + child.delay_s


def _close_input(child: Child) -> None:
    assert child.process.stdin is not None
    child.process.stdin.close()


def _ended(child: Child, until: float) -> bool:
    """Whether it has ended by then (in the time of `time.monotonic`)."""
    try:
        child.process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _signal_group(child: Child, number: signal.Signals) -> None:
    """Send it to the child and to whatever it started."""
    try:
        os.killpg(child.process.pid, number)
    except (ProcessLookupError, PermissionError):
        return  # nobody is left
