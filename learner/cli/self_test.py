"""`learner self-test`: says line by line whether this installation works, by doing in small what a training does."""

import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TextIO

import torch
import zmq

from farflung.common.data.spec import Space
from farflung.common.net import sockets
from farflung.common.net.address import Address, parse_address
from farflung.common.process.config import PREFIX
from farflung.common.process.errors import FarflungError
from farflung.common.process.lifecycle import Stop
from farflung.common.process.log import Who
from farflung.common.protocol import wire
from farflung.common.protocol.messages import Bye
from farflung.learner import build, device
from farflung.learner.algorithms.networks import q_network
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.children import Children
from farflung.learner.config import LearnerConfig
from farflung.learner.endpoint.parcel_queue import ParcelQueue
from farflung.learner.graph import acting_graph
from farflung.learner.local_actors import players
from farflung.learner.loop import Loop
from farflung.learner.observe.status import ActorState, Status
from farflung.learner.observe.status_builder import StatusBuilder
from farflung.learner.observe.watch import Unhealthy, receive
from farflung.learner.schedule.sequential import Sequential
from farflung.learner.storage import checkpoint
from farflung.learner.storage.run_folder import new_run
from farflung.learner.supervisor import Supervisor
from farflung.learner.transport.in_process import InProcess

PATIENCE_S = 28.0  # for all of it together, which takes a quiet machine ten: whatever is broken, half a minute is enough to hear of it
HORIZON = 32
STEPS = 2000  # of the real actor
VECTOR = Space("box", "float32", (4,))
PICTURE = Space("box", "uint8", (84, 84))


class Broken(FarflungError):
    """Something does not work here; the text says what."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A learner and an actor at work, each in a process of its own."""

    learner: subprocess.Popen[bytes]
    actor: subprocess.Popen[bytes]
    address: Address
    context: sockets.Context
    folder: Path
    end: float  # by the clock, of all waiting


def versions() -> str:
    """What is installed."""
    packages = (
        "farflung",
        "torch",
        "onnx",
        "onnxruntime",
        "gymnasium",
        "numpy",
        "pyzmq",
        "msgpack",
    )
    listed = ", ".join(f"{package} {version(package)}" for package in packages)
    return f"{listed}, libzmq {zmq.zmq_version()}, Python {platform.python_version()} on {platform.system()} {platform.machine()}"


def training_device() -> str:
    """Where training would run."""
    chosen, reason = device.choose("auto")
    return f"training runs on {chosen} ({reason}), and a product on it is right: {_product(chosen)}"


def check_acting_graph() -> str:
    """Whether the built-in networks act as they are."""
    sizes = []
    for space, stack in ((VECTOR, 1), (PICTURE, 4)):
        module = q_network({"": space}, stack, actions=6, hidden=(32,), dueling=True)
        acting = acting_graph.export(
            module, acting_graph.observation_inputs({"": space}, stack), ("q",)
        )
        acting_graph.prove(module, acting)
        sizes.append(len(acting.model))
    return f"a perceptron and a convolutional network answer as torch does under any weights (graphs of {sizes[0]} and {sizes[1]} bytes)"


def repetition() -> str:
    """Whether one seed gives one result."""
    first, second = _trained(0), _trained(0)
    if first != second:
        raise Broken(f"two trainings in turns with one seed differ: {first} and {second}")
    return f"two trainings in turns with one seed give the same parameters ({first})"


def loopback(end: float) -> str:
    """Whether a learner and an actor, each in a process of its own, train together, and count the same. It waits until `end` at most."""
    with _pair(end) as pair:
        with sockets.experience_sender(pair.context, pair.address) as socket:
            socket.send(_damaged())
        trained = _told(
            pair,
            lambda status: status.steps >= STEPS and status.updates > 0,
            f"{STEPS} steps and an update",
        )
        _require(
            "checksum" in trained.refused,
            f"a damaged message was not refused: {dict(trained.refused)}",
        )
        pair.actor.send_signal(signal.SIGTERM)
        _told(pair, _balanced, "a balanced ledger")
        pair.learner.send_signal(signal.SIGTERM)
        code = _exit_code(pair.learner, end)
        _require(code == 0, f"the learner's exit code is {code}")
        steps = checkpoint.load(pair.folder / "runs" / "self-test").facts["steps"]
    return f"an actor's process sent {steps} steps to a learner's: trained, ledger balanced, a damaged message refused, checkpoint readable"


CHECKS: dict[str, Callable[[float], str]] = {  # by the moment at which their waiting ends
    "versions": lambda end: versions(),
    "device": lambda end: training_device(),
    "acting graph": lambda end: check_acting_graph(),
    "repetition": lambda end: repetition(),
    "loopback": loopback,
}


def self_test(stream: TextIO, checks: Mapping[str, Callable[[float], str]] = CHECKS) -> int:
    """Run all checks and say what came of each; gives the exit code: 0 if everything works, else 1."""
    started_at = time.monotonic()
    failed = []
    for name, check in checks.items():
        try:
            verdict = f"ok      {name}: {check(started_at + PATIENCE_S)}"
        except Exception as error:  # the top of a check: whatever it is, the others are told, too
            failed.append(name)
            verdict = f"FAILED  {name}: {error if isinstance(error, FarflungError) else f'{type(error).__name__}: {error}'}"
        stream.write(verdict + "\n")
        stream.flush()
    verdict = (
        f"What does not work here: {', '.join(failed)}." if failed else "This installation works."
    )
    stream.write(f"{verdict} ({time.monotonic() - started_at:.0f} s)\n")
    return 1 if failed else 0


def _product(where: torch.device) -> float:
    ones = torch.ones(8, 8, device=where)
    found = float((ones @ ones).sum())
    _require(found == 512, f"a product of ones on {where} gives {found:g} instead of 512")
    return found


def _trained(seed: int) -> str:
    """The parameters that a short training in turns ends with, as a hash."""
    config = LearnerConfig(
        mode="sequential",
        seed=seed,
        steps=256,
        horizon=8,
        capacity=1000,
        warmup=64,
        replay_ratio=2.0,
        batch_size=16,
        settings=DQNSettings(hidden=(16,)),
    )
    with tempfile.TemporaryDirectory() as folder, Children(Path(folder)) as children:
        run = new_run(folder, "self-test", config.environment, "")
        learner = build.learner(config, run, torch.device("cpu"))
        builder = StatusBuilder(config, run, learner.core, "cpu")
        stop, queue = Stop(), ParcelQueue()
        transport = InProcess(learner.receiver, learner.publisher, queue, players(config, stop))
        try:
            who = Who("learner", run.name)
            started_at = time.monotonic()
            supervisor = Supervisor(
                config, run, learner.core, builder, children, stop, who, started_at
            )
            Loop(learner.core, Sequential(), queue, transport).run(supervisor)
        finally:
            transport.close()
            stop.close()
        return learner.core.fingerprint


@contextmanager
def _pair(end: float) -> Iterator[Pair]:
    """A learner on free ports of loopback and an actor for it; both have ended afterwards."""
    with tempfile.TemporaryDirectory() as name, sockets.context() as context:
        folder = Path(name)
        small = (
            "--warmup",
            "256",
            "--replay-ratio",
            "1",
            "--horizon",
            str(HORIZON),
            "--checkpoint-every",
            "0",
        )
        learner = _started(folder, "learner", "--port", "0", "--name", "self-test", *small)
        try:
            address = _address(folder / "learner.log", learner, end)
            actor = _started(
                folder,
                "actor",
                str(address),
                "--feed-port",
                str(address.feed_port),
                "--name",
                "self-test",
            )
            try:
                yield Pair(learner, actor, address, context, folder, end)
            finally:
                _end(actor)
        finally:
            _end(learner)


def _started(folder: Path, role: str, *flags: str) -> subprocess.Popen[bytes]:
    """A process of a role, which hears nothing of this one's configuration."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    with (folder / f"{role}.log").open("wb") as log:
        command = [sys.executable, "-m", "farflung", role, *flags]
        return subprocess.Popen(  # noqa: S603
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=variables
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


def _exit_code(process: subprocess.Popen[bytes], end: float) -> int:
    """That of a process which was told to end."""
    try:
        return process.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise Broken("the learner does not end when it is told to") from error


def _address(log: Path, learner: subprocess.Popen[bytes], end: float) -> Address:
    """Where the learner says that it listens."""
    poll = Stop()
    try:
        while time.monotonic() < end and learner.poll() is None:
            if found := re.search(
                r"listening: actor (\S+) \(feed on port (\d+)\)", log.read_text()
            ):
                return parse_address(found[1], int(found[2]))
            poll.wait(0.05)
    finally:
        poll.close()
    raise Broken(f"a learner did not come to listen: {_last_line(log)}")


def _told(pair: Pair, condition: Callable[[Status], bool], what: str) -> Status:
    """The first status of the learner for which this holds."""
    with suppress(Unhealthy):  # it tells nothing: its log may say why
        while (left_s := pair.end - time.monotonic()) > 0 and pair.learner.poll() is None:
            status = receive(pair.context, pair.address, left_s)
            if condition(status):
                return status
    words = "; ".join(
        f"{role}: {_last_line(pair.folder / f'{role}.log')}" for role in ("learner", "actor")
    )
    raise Broken(f"waited for {what}. The last words of the {words}")


def _balanced(status: Status) -> bool:
    """Whether the actor has gone, and all three count the same: it, the learner's network thread, and its replay."""
    accepted = status.received - status.duplicates - sum(status.refused.values())
    actor = next((actor for actor in status.actors if actor.state == ActorState.LEFT), None)
    if actor is None or status.lost or accepted * HORIZON != status.steps:
        return False
    return actor.acknowledged <= accepted <= actor.acknowledged + actor.waiting


def _damaged() -> bytes:
    """A goodbye with one bit turned over on the way."""
    frame = wire.encode(Bye("run", "default", "somebody", 1, 1, "a reason"))
    frame[-1] ^= 1
    return bytes(frame)


def _last_line(log: Path) -> str:
    return (log.read_text().strip().splitlines() or ["nothing"])[-1]


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Broken(otherwise)
