"""Parcels of 64 KiB per second through a broker ÷ directly, interleaved; and the added latency.

`python bench/relay.py [--quick]` prints one JSON line. Throughput is measured from an actor's
outbox in this process to the replay of a learner in another one, with acknowledgements; the broker
is a third process. Latency is measured one message at a time, from PUSH to PULL and from XPUB to
SUB in this process, directly and through the broker. On two cores three busy processes compete. So
the line also has the processor time of a message in each process, which hardly depends on other
load.
"""

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

import _measure
import psutil
import zmq

from bench import data_path
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.sockets import Sockets
from farflung.common.data.statistics import Spread
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.sockets import Socket
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import Bye
from farflung.common.protocol.names import UNTIL_SHARE

SHAPE = data_path.SHAPES["64_KiB"]
WORD = bytes(wire.encode(Bye("bench", "default", "bench", 1, 1, "x" * 1000)))
BEACON = topics.beacon("default")


def main() -> None:
    """Measure throughput and latency."""
    quick = "--quick" in sys.argv
    throughput = compare(*((3, 0.1) if quick else (7, 1.0)))
    _measure.report("relay", {"throughput": throughput, "latency": latency(200 if quick else 3000)})


def compare(rounds: int, seconds: float) -> dict[str, object]:
    """Return the ratio of relayed and direct throughput."""
    block = data_path.parcel(SHAPE)
    with data_path.receiver(SHAPE) as process, sockets.context() as context, ExitStack() as stack:
        ports = data_path.Ports(*map(int, data_path.answer(process)))
        learner = Address("127.0.0.1", ports.experience, ports.feed)
        relay, around = stack.enter_context(broker(learner))
        addresses = {"direct": learner, "relayed": around}
        links = {name: joined(context, address, name) for name, address in addresses.items()}
        arms = {name: partial(data_path.ours, process, link, block) for name, link in links.items()}
        for arm in arms.values():
            arm(UNTIL_SHARE)  # from then on it is granted more than one at a time
        # This also warms up.
        fitting = {name: data_path.rate(partial(arm, 256), 256) for name, arm in arms.items()}
        counts = {name: max(64, int(seconds * per_second)) for name, per_second in fitting.items()}
        timed = {
            name: partial(data_path.rate, partial(arm, counts[name]), counts[name])
            for name, arm in arms.items()
        }
        rates = _measure.interleave(timed, rounds)
        processes = {"actor": os.getpid(), "broker": relay, "learner": process.pid}
        costs = {
            name: cost(processes, partial(arm, counts[name]), counts[name])
            for name, arm in arms.items()
        }
        for link in links.values():
            link.close("measured", 1.0)
    return (
        _measure.ratio(rates["relayed"], rates["direct"])
        | {f"{name}_per_second": round(statistics.median(rate)) for name, rate in rates.items()}
        | {"processor_us_per_message": costs}
    )


def cost(processes: Mapping[str, int], arm: Callable[[], object], count: int) -> dict[str, float]:
    """Return the processor time of one message in microseconds, by process."""
    before = {name: processor_s(pid) for name, pid in processes.items()}
    arm()
    return {
        name: round(1e6 * (processor_s(pid) - before[name]) / count, 1)
        for name, pid in processes.items()
    }


def processor_s(pid: int) -> float:
    """Return the processor time that a process has used."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def latency(count: int) -> dict[str, object]:
    """Return the milliseconds of one message, direct and relayed, and their difference."""
    with sockets.context() as context, ExitStack() as stack:
        address, pull, feed = sockets.listen(context, Address("127.0.0.1", 0, 0), 1)
        _, around = stack.enter_context(broker(address))
        opened = [pull, feed]
        took: dict[str, Spread] = {}
        for name, where in (("direct", address), ("relayed", around)):
            push, subscriber = (
                sockets.experience_sender(context, where),
                sockets.feed_subscriber(context, where, [BEACON]),
            )
            opened += [push, subscriber]
            settle(feed, subscriber)
            took[f"experience_{name}"], took[f"feed_{name}"] = Spread(count), Spread(count)
            for _ in range(count):
                took[f"experience_{name}"].add(lap(partial(push.send, WORD), pull))
                took[f"feed_{name}"].add(
                    lap(partial(feed.send_multipart, (BEACON, WORD)), subscriber)
                )
            subscriber.close()
        for socket in opened:
            socket.close(linger=0)
    return {
        way: difference(took[f"{way}_direct"], took[f"{way}_relayed"])
        for way in ("experience", "feed")
    }


def lap(send: Callable[[], object], receiver: Socket) -> float:
    """Return the milliseconds from sending to receiving."""
    start = time.perf_counter()
    send()
    if not receiver.poll(5000):
        raise RuntimeError("a message was lost on loopback")
    receiver.recv_multipart()
    return 1000 * (time.perf_counter() - start)


def difference(direct: Spread, relayed: Spread) -> dict[str, float]:
    """Return the percentiles of both, and their difference."""
    percentiles = {
        f"p{percent}": (direct.percentile(percent) or 0.0, relayed.percentile(percent) or 0.0)
        for percent in (50, 99)
    }
    figures = {
        name: {"direct_ms": before, "relayed_ms": after, "added_ms": after - before}
        for name, (before, after) in percentiles.items()
    }
    return {
        f"{name}_{key}": round(value, 3)
        for name, values in figures.items()
        for key, value in values.items()
    }


def settle(feed: Socket, subscriber: Socket) -> None:
    """Grant subscriptions and publish until the subscriber receives it."""
    while not subscriber.poll(20):
        while int(feed.get(zmq.EVENTS)) & zmq.POLLIN:
            word = feed.recv()
            feed.set(zmq.SUBSCRIBE if word[:1] == b"\x01" else zmq.UNSUBSCRIBE, word[1:])
        feed.send_multipart((BEACON, WORD))
    while subscriber.poll(100):
        subscriber.recv_multipart()


def joined(context: sockets.Context, address: Address, name: str) -> Sockets:
    """Return an actor's connection that has its snapshot and its credit."""
    link = Sockets(context, address, PolicyClient("default", name, 1))
    while link.client.joined is None:
        link.exchange(0.1)
    return link


@contextmanager
def broker(learner: Address, *flags: str) -> Iterator[tuple[int, Address]]:
    """Run a broker in a process of its own; yield its process id and address."""
    command = [
        sys.executable,
        "-m",
        "farflung.broker.main",
        str(learner),
        "--upstream-feed-port",
        str(learner.feed_port),
        "--port",
        "0",
        *flags,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = (
                re.search(r"actor 127.0.0.1:(\d+) \(feed on port (\d+)\)", line)
                for line in process.stderr
            )
            experience, feed = next(filter(None, lines)).groups()
            yield process.pid, Address("127.0.0.1", int(experience), int(feed))
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
