"""Environment steps per second of an actor ÷ those of a plain list of environments, interleaved.

`python bench/actor.py [--quick]` prints one JSON line. The actor is complete (loop, client,
connection, outbox, watchdog) and runs in this process. It sends over real sockets to a learner in
another process, which checks every parcel and inserts it into a replay. The list is stepped with
actions drawn beforehand, and reset by hand. Both play CartPole-v1 with random actions and horizon
32, in 1, 16 and 64 single environments. `bench/acting.py` has their vector form.
"""

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import _measure
import numpy as np

from farflung.actor.connection.policies import PolicyConnections
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.sockets import Sockets
from farflung.actor.loop import ActorLoop
from farflung.actor.rules import Rules
from farflung.actor.worlds import gymnasium
from farflung.actor.worlds.families import opener
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.data.spec import World
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who
from farflung.common.protocol.names import UNTIL_SHARE

ENVIRONMENTS = (1, 16, 64)
WARMED_UP = UNTIL_SHARE + 4  # acknowledged parcels; by then an actor has its credit


def main() -> None:
    """Measure for each number of environments."""
    quick = "--quick" in sys.argv
    rounds, seconds = (2, 0.2) if quick else (9, 0.8)
    figures: dict[str, object] = {}
    with draining_learner() as address:
        for count in ENVIRONMENTS:
            arms = {
                "actor": partial(acting, address, count, seconds),
                "list": partial(stepping, count, seconds),
            }
            rates = _measure.interleave(arms, rounds)
            per_second = {
                f"{name}_steps_per_second": round(float(np.median(values)))
                for name, values in rates.items()
            }
            figures[f"environments_{count}"] = (
                _measure.ratio(rates["actor"], rates["list"]) | per_second
            )
    _measure.report("actor", figures)


@contextmanager
def draining_learner() -> Iterator[Address]:
    """Run a learner in a process of its own and yield its address."""
    command = [sys.executable, str(Path(__file__).with_name("_learner.py"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            port, feed_port = map(int, process.stdout.readline().split())
            yield Address("127.0.0.1", port, feed_port)
        finally:
            process.stdin.close()


def acting(address: Address, environments: int, seconds: float) -> float:
    """Run an actor and return its steps per second after the warm-up."""
    stop, watchdog = Stop(), Watchdog(60.0)
    client = PolicyClient("default", f"bench-{next(NAMES)}", environments)
    around = Surroundings(client.problem, stop.wait, time.monotonic, watchdog.beat)
    looks: list[tuple[float, float]] = []

    def look() -> None:
        looks.append((time.perf_counter(), connection.work.steps))

    def watch() -> None:
        while client.outbox.ledger.acknowledged.parcels < WARMED_UP and not stop.wait(0.01):
            pass
        look()
        stop.wait(seconds)
        look()
        stop.set("measured")

    watcher = threading.Thread(target=watch)
    with sockets.context() as context:
        connection = PolicyConnections(
            [address], "default", lambda policy: client, partial(Sockets, context)
        )
        open_world, who = opener(environments, around, vector=False), Who("actor", "bench")
        watcher.start()
        try:
            ActorLoop(connection, open_world, Rules(), stop, watchdog, who).run()
        finally:
            stop.set("ended")
            watcher.join()
            watchdog.close()
            connection.close(stop.reason, 3.0)
            stop.close()
    (before, first), (after, last) = looks
    return (last - first) / (after - before)


NAMES = itertools.count()


def stepping(environments: int, seconds: float) -> float:
    """Return the steps per second of a plain list."""
    worlds = [gymnasium.make(World("CartPole-v1")) for _ in range(environments)]
    rows = list(np.random.default_rng(0).integers(0, 2, (4096 // environments, environments)))
    for number, world in enumerate(worlds):
        world.reset(seed=number)
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for row in rows:
            for world, action in zip(worlds, row, strict=True):
                _, _, terminated, truncated, _ = world.step(action)
                if terminated or truncated:
                    world.reset()
        steps += len(rows) * environments
    return steps / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
