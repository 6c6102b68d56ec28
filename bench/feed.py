"""Milliseconds until weights reach every subscriber, and until a late joiner has them.

`python bench/feed.py [--quick]` prints one JSON line. Weights travel directly and through a broker,
with keys and without, in turns. A learner in another process publishes on request. Versions of 1
and 10 MiB go to 1, 8 and 32 subscribers in this process; the time ends when the last of them has
all of it. Under `actors`, 1 and 8 actors' connections have read, checked and taken it over too. A
late joiner is an actor's connection; its time runs from making the sockets to having spec and
weights. The line has the median, the worst, and the share within 10 ms.
"""

import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import _measure
import numpy as np
from msgspec import structs

from bench import data_path
from bench.relay import broker
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.sockets import Sockets
from farflung.common.data.spec import Graph, Spec, Tensor
from farflung.common.data.weights import Version, Weights, pack
from farflung.common.net import keys, sockets
from farflung.common.net.address import Address
from farflung.common.net.keys import ClientKeys
from farflung.common.net.sockets import Socket
from farflung.common.protocol import topics
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.transport.network_thread import NetworkThread

MEBIBYTE = 1 << 20
SIZES = {"1_MiB": MEBIBYTE, "10_MiB": 10 * MEBIBYTE}
PATIENCE_MS = 20_000
QUIET_MS = 50
PROMISED_MS = 10.0  # for a late joiner's first mebibyte
EDGE = "edge"  # the label of the broker's key

Ways = dict[str, tuple[Address, ClientKeys | None]]


def main() -> None:
    """Measure both, or run as the learner."""
    if "--publish" in sys.argv:
        publish(int(sys.argv[2]), sys.argv[3])
        return
    quick = "--quick" in sys.argv
    counts, rounds, joins = ((1, 2), 2, 3) if quick else ((1, 8, 32), 5, 100)
    actors = counts[:2]
    figures: dict[str, object] = {}
    for name, size in list(SIZES.items())[: 1 if quick else None]:
        with ways(size) as (learners, found), sockets.context() as context:
            published = {
                f"{count}": spread_out(context, learners, found, count, rounds) for count in counts
            }
            taken = {
                f"{count}": taken_over(context, learners, found, count, rounds) for count in actors
            }
            figures[name] = {
                "subscribers": published,
                "actors": taken,
                "late_joiner": late(context, found, joins if size == MEBIBYTE else joins // 4 + 1),
            }
    _measure.report("feed", figures)


# ---- measurements


def spread_out(
    context: sockets.Context,
    learners: "dict[str, subprocess.Popen[str]]",
    found: Ways,
    count: int,
    rounds: int,
) -> dict[str, object]:
    """Return for each way the milliseconds until the last subscriber has a new version."""
    with ExitStack() as stack:
        arms = {}
        for way, (address, pair) in found.items():
            listeners = [
                stack.enter_context(listener(context, address, pair)) for _ in range(count)
            ]
            settle(learners[way], listeners)
            arms[way] = partial(version, learners[way], listeners)
        taken = _measure.interleave(arms, rounds)
    return {
        way: _measure.spread([1000 * seconds for seconds in values], 1)
        for way, values in taken.items()
    }


def version(learner: "subprocess.Popen[str]", listeners: list[Socket]) -> float:
    """Return the seconds from the request until every subscriber has the version."""
    start = time.perf_counter()
    data_path.ask(learner, "publish", 1)
    for listener in listeners:
        if not listener.poll(PATIENCE_MS):
            raise RuntimeError("a version did not arrive")
        listener.recv_multipart(copy=False)
    return time.perf_counter() - start


def taken_over(
    context: sockets.Context,
    learners: "dict[str, subprocess.Popen[str]]",
    found: Ways,
    count: int,
    rounds: int,
) -> dict[str, object]:
    """Return for each way the milliseconds until the last actor could act on a new version."""
    with ExitStack() as stack:
        arms = {}
        for way, where in found.items():
            links = [joined(context, *where) for _ in range(count)]
            for link in links:
                stack.callback(link.close, "measured", 0.0)
            taking = partial(take_over, learners[way], links)
            taking()  # the first one may bring new sockets of a broker
            arms[way] = taking
        taken = _measure.interleave(arms, rounds)
    return {
        way: _measure.spread([1000 * seconds for seconds in values], 1)
        for way, values in taken.items()
    }


def take_over(learner: "subprocess.Popen[str]", links: list[Sockets]) -> float:
    """Return the seconds from the request until every connection has taken the version over."""
    before = [held(link) for link in links]
    start = time.perf_counter()
    data_path.ask(learner, "publish", 1)
    for link, version in zip(links, before, strict=True):
        while held(link) <= version:
            link.exchange(0.1)
    return time.perf_counter() - start


def held(link: Sockets) -> Version:
    """Return the version that a connection has."""
    assert link.client.weights is not None
    return link.client.weights.version


def late(context: sockets.Context, found: Ways, joins: int) -> dict[str, object]:
    """Return the waiting times of actors that join a running learner."""
    taken = _measure.interleave(
        {way: partial(join, context, *where) for way, where in found.items()}, joins
    )
    return {
        way: {
            "median_ms": round(statistics.median(values), 2),
            "worst_ms": round(max(values), 2),
            f"within_{PROMISED_MS:g}_ms": round(
                sum(value <= PROMISED_MS for value in values) / len(values), 3
            ),
            "joins": len(values),
        }
        for way, values in taken.items()
    }


def join(context: sockets.Context, address: Address, pair: ClientKeys | None) -> float:
    """Return the milliseconds from making an actor's sockets until it could act."""
    start = time.perf_counter()
    link = joined(context, address, pair)
    taken = 1000 * (time.perf_counter() - start)
    link.close("measured", 0.0)
    return taken


def joined(context: sockets.Context, address: Address, pair: ClientKeys | None) -> Sockets:
    """Return the connection of an actor that could act."""
    name = keys.full_name(pair, f"late-{secrets.randbits(32)}")
    link = Sockets(context, address, PolicyClient("default", name, 1), keys=pair)
    while link.client.newest.joined is None:
        link.exchange(0.1)
    return link


@contextmanager
def listener(
    context: sockets.Context, address: Address, pair: ClientKeys | None
) -> Iterator[Socket]:
    """Open a subscriber of all versions."""
    with sockets.feed_subscriber(
        context, address, [topics.weights("default")], keys=pair
    ) as socket:
        yield socket


def settle(learner: "subprocess.Popen[str]", listeners: list[Socket]) -> None:
    """Publish until every subscriber receives it, then wait until the feed is quiet.

    Do it twice: a broker opens new sockets after its first large message.
    """
    for _ in range(2):
        while any(not listener.poll(500) for listener in listeners):
            data_path.ask(learner, "publish", 1)
        while any(
            listener.poll(QUIET_MS) and listener.recv_multipart(copy=False)
            for listener in listeners
        ):
            pass


# ---- processes


@contextmanager
def ways(size: int) -> "Iterator[tuple[dict[str, subprocess.Popen[str]], Ways]]":
    """Run four learners, two behind a broker and two with keys; yield them and their addresses."""
    learners, found = {}, {}
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary) / "keys"
        keys.make(folder, EDGE, keys.BROKER)
        pair = keys.client_keys(folder)
        flags = ("--keys", str(folder), "--upstream-keys", str(folder / f"{EDGE}.key"))
        for relayed, guarded in product((False, True), repeat=2):
            way = f"{'relayed' if relayed else 'direct'}{'_with_keys' if guarded else ''}"
            learners[way] = stack.enter_context(learning(size, str(folder) if guarded else ""))
            address = Address("127.0.0.1", *map(int, data_path.answer(learners[way])))
            if relayed:
                _, address = stack.enter_context(broker(address, *(flags if guarded else ())))
            found[way] = address, pair if guarded else None
        yield learners, found


def learning(size: int, folder: str) -> "AbstractContextManager[subprocess.Popen[str]]":
    """Start a learner's process."""
    return _measure.other(__file__, "--publish", size, folder)


def publish(size: int, folder: str) -> None:
    """Run a learner with weights of this size; each line of input publishes a version."""
    spec = spec_of(size)
    arrays = {tensor.name: np.zeros(tensor.shape, tensor.dtype) for tensor in spec.graph.weights}
    weights = Weights(
        spec.run,
        spec.policy,
        Version(1, 1),
        0,
        0,
        spec.graph.weights,
        pack(spec.graph.weights, arrays),
    )
    endpoint = Endpoint(spec)
    pair = keys.server_keys(Path(folder)) if folder else None
    with sockets.context() as context:
        link = NetworkThread(context, Address("127.0.0.1", 0, 0), endpoint, pair)
        link.start()
        endpoint.publish(weights)
        print(link.address.port, link.address.feed_port, flush=True)
        for number, _ in enumerate(sys.stdin, start=2):
            endpoint.publish(replace(weights, version=Version(1, number)))
        link.close()


def spec_of(size: int) -> Spec:
    """Return a spec with weights of this size, in ten tensors."""
    tensors = tuple(Tensor(f"layer-{number}", "float32", (size // 40,)) for number in range(10))
    return structs.replace(
        data_path.spec_of(data_path.SHAPES["1_KiB"]), graph=Graph(b"", (), (), tensors)
    )


if __name__ == "__main__":
    main()
