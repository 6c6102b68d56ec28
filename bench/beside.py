"""Updates per second while rows come in ÷ without any, in turns of seconds.

`OMP_NUM_THREADS=1 python bench/beside.py [--quick]` prints one JSON line. The learner is in this
process: network thread, receiver, replay, and DQN's updates of CartPole without pacing. Another
process sends 50,000 rows a second over real sockets: as 16 actors with one environment each, in
parcels of 32 rows, or as one actor with 64 environments, in parcels of 2,048. It plays nothing, so
on two cores no environment takes the time of training. The rate that arrived is stated; a turn in
which less than nine tenths of the rows came has no ratio.
"""

import argparse
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import _measure

from bench import _learner, data_path, relay
from bench.data_path import Shape
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.learner.loop import Loop

ROWS_PER_S = 50_000
ARMS = {"16_actors": (16, 1), "one_actor_64": (1, 64)}  # actors, and environments in each
HORIZON = 32  # steps of a window
FEWEST = 0.9  # of the rows that were to come
PATIENCE_S = 60.0


def main() -> None:
    """Measure both ways of sending, or be the process that sends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a turn")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--send", nargs=4, type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.send:
        send(Address("127.0.0.1", *asked.send[:2]), *asked.send[2:])
        return
    if asked.quick:
        asked.rounds, asked.seconds = 2, 0.5
    figures = {name: compare(*arm, asked.rounds, asked.seconds) for name, arm in ARMS.items()}
    _measure.report("beside", {"rows_per_second": ROWS_PER_S, **figures})


# ---- the learner


def compare(actors: int, seats: int, rounds: int, seconds: float) -> dict[str, object]:
    """Return updates per second beside these actors ÷ those alone."""
    schedule = _learner.Draining()
    learner = _learner.exploring("CartPole-v1", horizon=HORIZON)
    with (
        _learner.listening(learner, schedule=schedule) as (link, loop),
        sender(link.address, actors, seats) as process,
    ):
        tell(process, "go")
        fill(loop, 20_000)
        schedule.trains = True
        arms = {
            "beside": partial(turn, loop, process, "go", seconds),
            "alone": partial(turn, loop, process, "stop", seconds),
        }
        arms["beside"]()  # warms up
        arrived: list[float] = []
        rates = _measure.interleave(
            {
                "beside": lambda: noted(arrived, arms["beside"]()),
                "alone": lambda: arms["alone"]()[0],
            },
            rounds,
        )
    found: dict[str, object] = {
        "arrived_per_second": round(min(arrived)),
        **{f"{name}_per_second": round(sorted(each)[rounds // 2]) for name, each in rates.items()},
    }
    if min(arrived) < FEWEST * ROWS_PER_S:
        return found | {"failed": "fewer rows came than were to be sent"}
    return found | _measure.ratio(rates["beside"], rates["alone"])


def noted(arrived: list[float], found: tuple[float, float]) -> float:
    """Note the rows per second of a turn, and return its updates per second."""
    arrived.append(found[1])
    return found[0]


def turn(
    loop: Loop, process: "subprocess.Popen[str]", command: str, seconds: float
) -> tuple[float, float]:
    """Train for some seconds; return updates and rows per second."""
    tell(process, command)
    settle_until = time.monotonic() + 0.2
    while time.monotonic() < settle_until:
        _learner.drain(loop)
    state, began = loop.core.state, time.monotonic()
    updates, steps = state.updates, state.steps
    while (now := time.monotonic()) < began + seconds:
        _learner.drain(loop)
    return (state.updates - updates) / (now - began), (state.steps - steps) / (now - began)


def fill(loop: Loop, rows: int) -> None:
    """Take in the rows that training begins with."""
    until = time.monotonic() + PATIENCE_S
    while loop.core.state.steps < rows:
        _learner.drain(loop)
        if time.monotonic() > until:
            raise TimeoutError(f"{rows} rows did not come within {PATIENCE_S:g} s")


@contextmanager
def sender(address: Address, actors: int, seats: int) -> "Iterator[subprocess.Popen[str]]":
    """Run the process that sends."""
    where = (address.port, address.feed_port)
    with _measure.other(__file__, "--send", *where, actors, seats) as process:
        yield process


def tell(process: "subprocess.Popen[str]", command: str) -> None:
    """Let the process send, or stop."""
    assert process.stdin is not None
    process.stdin.write(f"{command}\n")
    process.stdin.flush()


# ---- the process that sends


def send(address: Address, actors: int, seats: int) -> None:
    """Send windows of these actors in turn, at an even pace, until standard input closes."""
    block = data_path.parcel(Shape("beside", seats, 4))
    gap, due, sends = block.rows / ROWS_PER_S, 0.0, False
    with sockets.context() as context:
        links = [relay.joined(context, address, f"beside-{number}") for number in range(actors)]
        number = 0
        while True:
            pause = max(0.0, due - time.monotonic()) if sends else 0.05
            if select.select([sys.stdin], [], [], pause)[0]:
                command = sys.stdin.readline()
                if not command:
                    break
                sends, due = command == "go\n", time.monotonic()
                continue
            link = links[number % actors]
            number += 1
            if sends:
                due += gap
                link.client.outbox.offer(block, block.rows, block.size)
            link.exchange()
        for link in links:
            link.close("measured", 0.0)


if __name__ == "__main__":
    main()
