"""Parcels per second from outbox to replay ÷ raw ZeroMQ PUSH/PULL of the same bytes, interleaved.

`python bench/data_path.py [--quick]` prints one JSON line. Ours: outbox, encoding and PUSH in this
process; PULL, receiver, queue, acknowledgement and `replay.add` in another, with the classes that
actors and learners use. Raw: the bytes of one such parcel, repeated, sent and received with and
without copies, and discarded on arrival; the faster of both counts. The shapes are vectors of 256
float32 in parcels of 64 KiB and 1 MiB, and of 4 float32 in parcels of 1 KiB and of 60 KiB, as 64
CartPoles make them. At most 1 GB goes through each arm.
"""

import statistics
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import _measure
import numpy as np
import zmq

from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.sockets import Sockets
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import ACTIONS, OBSERVATIONS, REWARDS, Graph, Space, Spec, World
from farflung.common.data.weights import Version
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.sockets import Socket
from farflung.common.protocol.names import UNTIL_SHARE
from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.wire import Envelope

HORIZON, CAPACITY = 32, 20_000
MOST_BYTES = 1_000_000_000  # through one arm in all rounds
QUEUED_BYTES = 64 << 20  # in front of each raw socket: the credit of an actor


@dataclass(frozen=True)
class Shape:
    """The shape of a parcel: seats, each with a window of vectors."""

    name: str
    seats: int
    width: int


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("1_KiB", 1, 4),
        Shape("64_KiB", 2, 256),
        Shape("64_cartpoles", 64, 4),
        Shape("1024_KiB", 32, 256),
    )
}


def main() -> None:
    """Measure each shape, or run as the receiving process."""
    if "--receive" in sys.argv:
        receive(SHAPES[sys.argv[-1]])
        return
    quick = "--quick" in sys.argv
    names, rounds, seconds = (["64_KiB"], 2, 0.05) if quick else (list(SHAPES), 7, 0.5)
    figures: dict[str, object] = {name: compare(SHAPES[name], rounds, seconds) for name in names}
    _measure.report("data_path", figures)


# ---- the sending process


def compare(shape: Shape, rounds: int, seconds: float) -> dict[str, object]:
    """Return the ratio of ours and the faster raw arm."""
    spec, block = spec_of(shape), parcel(shape)
    envelope = Envelope(spec.run, spec.policy, "bench", 1, 1, 1, Version(1, 1), spec.schema)
    frame = bytes(ParcelCodec(spec).encode(envelope, block))
    with receiver(shape) as process, sockets.context() as context:
        ports = Ports(*map(int, answer(process)))
        link = joined(context, ports)
        raw = context.socket(zmq.PUSH)
        raw.set(zmq.SNDHWM, backlog(frame))
        raw.connect(f"tcp://127.0.0.1:{ports.raw}")
        arms = {
            "ours": partial(ours, process, link, block),
            "raw_copying": partial(push, process, raw, frame, True),
            "raw_without": partial(push, process, raw, frame, False),
        }
        for arm in arms.values():
            arm(UNTIL_SHARE)  # from then on ours is granted more than one at a time
        first = backlog(frame)  # warm up with a full queue: fresh memory is slow
        fitting = {name: rate(partial(arm, first), first) for name, arm in arms.items()}
        most = MOST_BYTES // (len(frame) * (rounds + 1))
        counts = {
            name: min(most, 20_000, max(64, int(seconds * per_second)))
            for name, per_second in fitting.items()
        }
        rates = _measure.interleave(
            {
                name: partial(rate, partial(arm, counts[name]), counts[name])
                for name, arm in arms.items()
            },
            rounds,
        )
        raw.close(0)
        link.close("measured", 1.0)
    faster = max(("raw_copying", "raw_without"), key=lambda name: statistics.median(rates[name]))
    per_second = {
        f"{name}_per_second": round(statistics.median(values)) for name, values in rates.items()
    }
    return {"bytes": len(frame), **_measure.ratio(rates["ours"], rates[faster]), **per_second}


def rate(arm: "partial[float]", count: int) -> float:
    """Return the parcels per second until the last one has arrived."""
    start = time.monotonic()
    return count / (arm() - start)


def ours(process: "subprocess.Popen[str]", link: Sockets, block: Parcel, count: int) -> float:
    """Send parcels as fast as they leave; return when the last one was in the replay."""
    ask(process, "ours", count)
    outbox = link.client.outbox
    for _ in range(count):
        outbox.offer(block, block.rows, block.size)
        link.exchange()
        while outbox.ledger.waiting.parcels:  # no credit
            link.exchange(0.1)
    (moment,) = answer(process)
    return float(moment)


def push(
    process: "subprocess.Popen[str]", raw: Socket, frame: bytes, copy: bool, count: int
) -> float:
    """Send the bytes `count` times; return when the last ones were received."""
    ask(process, "copying" if copy else "without", count)
    for _ in range(count):
        raw.send(frame, copy=copy)
    (moment,) = answer(process)
    return float(moment)


def joined(context: sockets.Context, ports: "Ports") -> Sockets:
    """Return an actor's connection that has its snapshot and its credit."""
    link = Sockets(
        context,
        Address("127.0.0.1", ports.experience, ports.feed),
        PolicyClient("default", "bench", 1),
    )
    while link.client.joined is None:
        link.exchange(0.1)
    return link


# ---- the receiving process


@dataclass(frozen=True)
class Ports:
    """The ports of the receiving process."""

    experience: int
    feed: int
    raw: int


def receiver(shape: Shape) -> "AbstractContextManager[subprocess.Popen[str]]":
    """Start the receiving process."""
    return _measure.other(__file__, "--receive", shape.name)


def ask(process: "subprocess.Popen[str]", kind: str, count: int) -> None:
    """Ask the process for `count` of a kind."""
    assert process.stdin is not None
    process.stdin.write(f"{kind} {count}\n")
    process.stdin.flush()


def answer(process: "subprocess.Popen[str]") -> list[str]:
    """Return the words of its next line."""
    assert process.stdout is not None
    return process.stdout.readline().split()


def receive(shape: Shape) -> None:
    """Run a learner and a raw PULL; answer each request with the time of its last arrival."""
    from bench import _learner  # imports torch, which the sender does not need

    learner = _learner.learner_of(spec_of(shape), CAPACITY)
    with _learner.listening(learner) as (link, loop), sockets.context() as context:
        raw = context.socket(zmq.PULL)
        raw.set(zmq.RCVHWM, backlog(bytes(parcel(shape).size)))
        print(
            link.address.port,
            link.address.feed_port,
            raw.bind_to_random_port("tcp://127.0.0.1"),
            flush=True,
        )
        rows = parcel(shape).rows
        goal = 0
        for line in sys.stdin:
            kind, count = line.split()
            if kind == "ours":
                goal += int(count) * rows
                while learner.core.state.steps < goal:
                    _learner.drain(loop)
            else:
                for _ in range(int(count)):
                    raw.recv(copy=kind == "copying")
            print(time.monotonic(), flush=True)
        raw.close(0)


# ---- both processes


def backlog(frame: bytes) -> int:
    """Return how many messages may queue in front of a raw socket."""
    return max(16, min(1000, QUEUED_BYTES // len(frame)))


def spec_of(shape: Shape) -> Spec:
    """Return a spec with these observations and two actions."""
    observation, action = (
        {"": Space("box", "float32", (shape.width,))},
        Space("discrete", "int64", (), (2,)),
    )
    return Spec(
        "bench",
        "default",
        "async",
        World("none"),
        observation,
        action,
        "q",
        HORIZON,
        1,
        Graph(b"", (), (), ()),
    )


def parcel(shape: Shape) -> Parcel:
    """Return one window."""
    generator, steps = np.random.default_rng(0), shape.seats * HORIZON
    columns = {
        OBSERVATIONS: generator.normal(size=(steps + shape.seats, shape.width)).astype(np.float32),
        ACTIONS: generator.integers(0, 2, steps),
        REWARDS: generator.random(steps, np.float32),
    }
    return Parcel(
        Version(1, 1),
        np.full(shape.seats, HORIZON, np.int32),
        np.zeros(shape.seats, np.uint8),
        columns,
    )


if __name__ == "__main__":
    main()
