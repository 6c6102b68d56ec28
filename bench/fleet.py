"""A fleet of light actors: what each costs the learner, and how fast it is acknowledged.

`python bench/fleet.py [--quick]` prints one JSON line. Each actor is a real client with sockets of
its own, 64 of them in a process, and sends one parcel of 1 KiB a second; the learner has receiver,
publisher and network thread, and drops what it received. Directly, and through a broker. All
figures but the times are per actor. Bytes are those of topics and frames, so a busy machine does
not change them, and hardly changes processor time; times are as the machine had them.
"""

import json
import os
import queue
import resource
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any

import _measure
import numpy as np
import psutil
import zmq

from bench import data_path
from bench.relay import broker, processor_s
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.sockets import Sockets
from farflung.common.data.parcel import Parcel
from farflung.common.data.weights import Version, Weights, pack
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.protocol.outbox import Frame
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.endpoint.publisher import Publication
from farflung.learner.transport.network_thread import NetworkThread

SHAPE = data_path.SHAPES["1_KiB"]
SIZES = (1, 16, 64, 256, 1024)
TOGETHER = 64  # actors in a process
SENDING_S = 1.0  # from one parcel of an actor to the next
IDLE_S = 0.25  # after which an actor without messages is looked after
LATE = 5  # joiners while the fleet is at work
ROOM = 1 << 30  # rows: nothing is held back

Process = subprocess.Popen[str]


def main() -> None:
    """Measure all fleets, or be a part of one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if "--learner" in sys.argv:
        learn()
    elif "--actors" in sys.argv:
        act(Address("127.0.0.1", int(sys.argv[2]), int(sys.argv[3])), int(sys.argv[4]))
    else:
        quick = "--quick" in sys.argv
        sizes, seconds = ((8,), 1.0) if quick else (SIZES, 10.0)
        ways = {"direct": False, "relayed": True}
        figures = {
            way: {f"{size}": fleet(size, seconds, relayed=relayed) for size in sizes}
            for way, relayed in ways.items()
        }
        _measure.report("fleet", figures)


# ---- the whole


def fleet(size: int, seconds: float, *, relayed: bool) -> dict[str, object]:
    """Start so many actors, let them work for a while, and say what each of them cost."""
    with ExitStack() as stack:
        learner = stack.enter_context(part("--learner"))
        address = Address("127.0.0.1", *map(int, data_path.answer(learner)))
        watched = {"learner": learner.pid}
        if relayed:
            watched["broker"], address = stack.enter_context(broker(address))
        before = {name: resident(pid) for name, pid in watched.items()}
        counts = [min(TOGETHER, size - first) for first in range(0, size, TOGETHER)]
        ports = address.port, address.feed_port
        actors = [stack.enter_context(part("--actors", *ports, count)) for count in counts]
        for process in actors:
            data_path.answer(process)  # all of its actors have joined
        time.sleep(2 * SENDING_S)
        used = {name: processor_s(pid) for name, pid in watched.items()}
        for process in (learner, *actors):
            data_path.ask(process, "begin", 0)
        joins = late(address, seconds)
        for process in (learner, *actors):
            data_path.ask(process, "end", 0)
        used = {name: processor_s(pid) - used[name] for name, pid in watched.items()}
        grown = {name: resident(pid) - before[name] for name, pid in watched.items()}
        published = told(learner)
        found = [told(process) for process in actors]
    return summary(size, seconds, published if relayed else None, used, grown, found) | {
        "late_join_ms": _measure.spread(joins, 1)
    }


def summary(
    size: int,
    seconds: float,
    relayed: dict[str, Any] | None,  # the learner's figures, where a broker is its subscriber
    used: dict[str, float],
    grown: dict[str, int],
    found: list[dict[str, Any]],
) -> dict[str, object]:
    """Return the figures per actor, and the times of all."""
    received = sum(one["bytes"] for one in found)
    took_ms = np.concatenate([one["took_ms"] for one in found])
    spent_s = sum(one["cpu_s"] for one in found)
    return {
        "learner_egress_bytes_s": round(
            (relayed["bytes"] if relayed else received) / seconds / size
        ),
        "actor_ingress_bytes_s": round(received / seconds / size),
        "actor_cpu_ms_s": round(1000 * spent_s / seconds / size, 2),
        **{f"{name}_cpu_ms_s": round(1000 * s / seconds / size, 3) for name, s in used.items()},
        "actor_kb": round(sum(one["kb"] for one in found) / size),
        **{f"{name}_kb": round(more / 1024 / size) for name, more in grown.items()},
        "acknowledged_ms_p50": round(float(np.percentile(took_ms, 50)), 1),
        "acknowledged_ms_p99": round(float(np.percentile(took_ms, 99)), 1),
        "parcels": len(took_ms),
    }


def part(*words: object) -> AbstractContextManager[Process]:
    """Start a process of the fleet."""
    return _measure.other(__file__, *words)


def told(process: Process) -> dict[str, Any]:
    """Return the figures that a process answers with."""
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def late(address: Address, seconds: float) -> list[float]:
    """Join now and then while the fleet is at work; return the milliseconds that it took."""
    end, joins = time.monotonic() + seconds, []
    with sockets.context() as context:
        for number in range(LATE):
            start = time.perf_counter()
            connection = Sockets(
                context, address, PolicyClient("default", f"late-{secrets.randbits(32)}", 1)
            )
            while connection.client.newest.weights is None:
                connection.exchange(0.1)
            joins.append(1000 * (time.perf_counter() - start))
            connection.close("measured", 0.0)
            time.sleep(max(0.0, end - time.monotonic()) / (LATE - number))
    return joins


def resident(pid: int) -> int:
    """Return the memory of a process."""
    return int(psutil.Process(pid).memory_info().rss)


def commands() -> "queue.SimpleQueue[str]":
    """Return the first words of standard input's lines as they come; at its end an empty one."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line.split()[0])
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    return lines


# ---- the learner


class CountingEndpoint(Endpoint):
    """An endpoint that counts the bytes that it publishes."""

    published = 0

    def due(self, now: float) -> Iterator[Publication]:
        """Yield the messages that are due now."""
        for topic, frame in super().due(now):
            self.published += len(topic) + len(frame)
            yield topic, frame


def learn() -> None:
    """Listen, and drop what comes."""
    spec = data_path.spec_of(SHAPE)
    endpoint, lines, before = CountingEndpoint(spec), commands(), 0
    weights = Weights(spec.run, spec.policy, Version(1, 1), 0, 0, (), pack((), {}))
    with sockets.context() as context:
        link = NetworkThread(context, Address("127.0.0.1", 0, 0), endpoint)
        link.start()
        endpoint.publish(weights)
        endpoint.progress(0, 0, ROOM)
        print(link.address.port, link.address.feed_port, flush=True)
        while (command := waited(lines)) != "":
            endpoint.queue.parcels.take(len(endpoint.queue.parcels))
            endpoint.progress(0, 0, ROOM)
            if command == "begin":
                before = endpoint.published
            elif command == "end":
                print(json.dumps({"bytes": endpoint.published - before}), flush=True)
        link.close()


def waited(lines: "queue.SimpleQueue[str]") -> str | None:
    """Return the next command, if one comes soon."""
    try:
        return lines.get(timeout=0.05)
    except queue.Empty:
        return None


# ---- the actors


class LightActor:
    """A client that sends one parcel a second and measures its acknowledgement."""

    def __init__(self, context: sockets.Context, address: Address, name: str, at: float) -> None:
        self.bytes = 0
        self.took_ms: list[float] = []
        self.client = PolicyClient("default", name, 1)
        self.connection = Sockets(context, address, self.client)
        self._sent_at: dict[int, float] = {}
        self._sends_at, self._looks_at = at, 0.0
        self._number = 0
        self.client.outbox.before_release = self._acknowledged
        self._receive = self.client.receive
        self.client.receive = self._count  # type: ignore[method-assign]

    def turn(self, now: float, block: Parcel, *, readable: bool) -> None:
        """Read what came, and send a parcel if its second has come."""
        sends = self.client.newest.weights is not None and now >= self._sends_at
        if sends and self.client.offer(block):
            self._sends_at += SENDING_S
            self._number += 1
            self._sent_at[self._number] = time.perf_counter()
        if readable or sends or now >= self._looks_at:
            self._looks_at = now + IDLE_S
            self.connection.exchange()

    def _acknowledged(self, number: int, frame: Frame) -> None:
        self.took_ms.append(1000 * (time.perf_counter() - self._sent_at.pop(number)))

    def _count(self, topic: bytes, frame: bytes, now: float) -> None:
        self.bytes += len(topic) + len(frame)
        self._receive(topic, frame, now)


def act(address: Address, count: int) -> None:
    """Be so many actors, until standard input closes."""
    lines, block = commands(), data_path.parcel(SHAPE)
    with sockets.context() as context:
        before, now = resident(os.getpid()), time.monotonic()
        stem, gap = f"light-{secrets.randbits(32)}", SENDING_S / count
        actors = [
            LightActor(context, address, f"{stem}-{number}", now + gap * number)
            for number in range(count)
        ]
        poller = zmq.Poller()
        for one in actors:
            poller.register(one.connection._feed, zmq.POLLIN)
        turn = partial(take_turns, actors, poller, block)
        while any(one.client.newest.weights is None for one in actors):
            turn()
        print("joined", flush=True)
        command, used = None, 0.0
        while command != "":
            command = lines.get() if not lines.empty() else None
            turn()
            if command == "begin":
                used = processor_s(os.getpid())
                for one in actors:
                    one.bytes, one.took_ms = 0, []
            elif command == "end":
                figures = {
                    "cpu_s": processor_s(os.getpid()) - used,
                    "bytes": sum(one.bytes for one in actors),
                    "kb": (resident(os.getpid()) - before) / 1024,
                    "took_ms": [took for one in actors for took in one.took_ms],
                }
                print(json.dumps(figures), flush=True)
        for one in actors:
            one.connection.close("measured", 0.0)


def take_turns(actors: list[LightActor], poller: zmq.Poller, block: Parcel) -> None:
    """Let each actor do what is due, after a wait for the next message or parcel."""
    ready = {socket for socket, _ in poller.poll(10)}
    now = time.monotonic()
    for one in actors:
        one.turn(now, block, readable=one.connection._feed in ready)


if __name__ == "__main__":
    main()
