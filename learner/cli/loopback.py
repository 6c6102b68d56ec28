"""The self-test's last check: a learner and an actor, each in its own process, train together."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from farflung.common.net import sockets
from farflung.common.net.address import Address, parse_address
from farflung.common.process.config import PREFIX
from farflung.common.process.errors import FarflungError
from farflung.common.process.lifecycle import Stop
from farflung.common.protocol import wire
from farflung.common.protocol.messages import Bye
from farflung.learner.local.programs import last_line
from farflung.learner.observe.status import ActorState, Status
from farflung.learner.observe.watch import Unhealthy, receive
from farflung.learner.storage import checkpoint

NAME = "self-test"
HORIZON = 32
STEPS = 2000  # of the actor
SMALL = (
    *("--port", "0", "--name", NAME, "--warmup", "256", "--replay-ratio", "1"),
    *("--horizon", str(HORIZON), "--checkpoint-every", "0"),
    *("--evaluate-every", "0"),
)


class Broken(FarflungError):
    """Something does not work here; the text names it."""


def require(condition: bool, sentence: str) -> None:
    """Raise `Broken` with this sentence unless the condition holds."""
    if not condition:
        raise Broken(sentence)


def loopback(end: float) -> str:
    """Train with real processes until all three count the same; wait until `end` at most."""
    with started_pair(end) as pair:
        with sockets.experience_sender(pair.context, pair.address) as socket:
            socket.send(damaged_message())
        trained = pair.status_when(
            lambda status: status.steps >= STEPS and status.updates > 0,
            f"{STEPS} steps and an update",
        )
        found = f"a damaged message was not refused: {dict(trained.refused)}"
        require("checksum" in trained.refused, found)
        pair.actor.send_signal(signal.SIGTERM)
        pair.status_when(is_balanced, "a balanced ledger")
        pair.learner.send_signal(signal.SIGTERM)
        code = exit_code(pair.learner, end)
        require(code == 0, f"the learner's exit code is {code}")
        steps = checkpoint.load(pair.folder / "runs" / NAME).facts["steps"]
    return (
        f"an actor's process sent {steps} steps to a learner's: trained, ledger balanced, "
        "a damaged message refused, checkpoint readable"
    )


@dataclass(frozen=True, slots=True)
class Pair:
    """A learner and an actor at work, each in a process of its own."""

    learner: "subprocess.Popen[bytes]"
    actor: "subprocess.Popen[bytes]"
    address: Address
    context: sockets.Context
    folder: Path
    end: float  # by the clock, of all waiting

    def status_when(self, condition: Callable[[Status], bool], what: str) -> Status:
        """Return the learner's first status for which this holds."""
        with suppress(Unhealthy):  # no status came: the logs may hold the cause
            while (left_s := self.end - time.monotonic()) > 0 and self.learner.poll() is None:
                status = receive(self.context, self.address, left_s)
                if condition(status):
                    return status
        lines = "; ".join(
            f"{role}: {last_line(self.folder / f'{role}.log')}" for role in ("learner", "actor")
        )
        raise Broken(f"waited for {what}. The last lines of the logs: {lines}")


@contextmanager
def started_pair(end: float) -> Iterator[Pair]:
    """Start a learner on free ports of loopback and an actor for it; end both afterwards."""
    with tempfile.TemporaryDirectory() as name, sockets.context() as context:
        folder = Path(name)
        learner = start(folder, "learner", *SMALL)
        try:
            address = listening_address(folder, learner, end)
            where = (str(address), "--feed-port", str(address.feed_port))
            actor = start(folder, "actor", *where, "--name", NAME)
            try:
                yield Pair(learner, actor, address, context, folder, end)
            finally:
                kill(actor)
        finally:
            kill(learner)


def start(folder: Path, role: str, *flags: str) -> "subprocess.Popen[bytes]":
    """Start a process of a role without this one's configuration."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    with (folder / f"{role}.log").open("wb") as log:
        command = [sys.executable, "-m", "farflung", role, *flags]
        return subprocess.Popen(  # noqa: S603
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=variables
        )


def kill(process: "subprocess.Popen[bytes]") -> None:
    """End a process that still runs."""
    if process.poll() is None:
        process.kill()
    process.wait()


def exit_code(process: "subprocess.Popen[bytes]", end: float) -> int:
    """Return the exit code of a process that was asked to end."""
    try:
        return process.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise Broken("the learner does not end on SIGTERM") from error


def listening_address(folder: Path, learner: "subprocess.Popen[bytes]", end: float) -> Address:
    """Return the address in the learner's log, once the log has it."""
    log, poll = folder / "learner.log", Stop()
    listens = re.compile(r"listening: actor (\S+) \(feed on port (\d+)\)")
    try:
        while time.monotonic() < end and learner.poll() is None:
            if found := listens.search(log.read_text()):
                return parse_address(found[1], int(found[2]))
            poll.wait(0.05)
    finally:
        poll.close()
    raise Broken(f"a learner did not come to listen: {last_line(log)}")


def is_balanced(status: Status) -> bool:
    """Return True once the actor has left, and it, the network thread and the replay agree."""
    accepted = status.received - status.duplicates - sum(status.refused.values())
    actor = next((actor for actor in status.actors if actor.state == ActorState.LEFT), None)
    if actor is None or status.lost or accepted * HORIZON != status.steps:
        return False
    return actor.acknowledged <= accepted <= actor.acknowledged + actor.waiting


def damaged_message() -> bytes:
    """Return a goodbye with one bit turned over on the way."""
    frame = wire.encode(Bye("run", "default", "stranger", 1, 1, "a reason"))
    frame[-1] ^= 1
    return bytes(frame)
