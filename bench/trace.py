"""Steps and updates per second while a client traces ÷ the same while none does, interleaved.

`OMP_NUM_THREADS=1 python bench/trace.py [--quick]` prints one JSON line. The actor is that of
`bench/actor.py`, with 16 environments; its learner drains, and a thread here receives the trace.
The updates are those of a learner of CartPole by its own loop. `span_ns` is the time of a span
that is not recorded.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import _measure
import numpy as np

from bench._learner import Draining, cartpole, listening
from bench.actor import acting, draining_learner
from bench.update import parcel
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.protocol import topics
from farflung.common.protocol.spans import MOST, Taker, Tracer
from farflung.learner.loop import Loop
from farflung.learner.schedule.schedule import UPDATE

ENVIRONMENTS, UPDATES = 16, 300
TAKE_EVERY = 100  # updates: more often than a learner takes its own spans


def main() -> None:
    """Measure steps, then updates."""
    quick = "--quick" in sys.argv
    rounds, seconds = (2, 0.2) if quick else (15, 1.0)
    figures: dict[str, object] = {}
    with draining_learner() as address:
        arms = {name: partial(steps, address, seconds, name == "on") for name in ("on", "off")}
        figures["steps"] = compared(_measure.interleave(arms, rounds))
    learner = cartpole()
    for _ in range(10):
        learner.core.insert([parcel()])
    with listening(learner, schedule=Draining()) as (_, loop):
        taker = Taker(learner.endpoint.spans)
        updates_of = {name: partial(updates, loop, taker, name == "on") for name in ("on", "off")}
        figures["updates"] = compared(_measure.interleave(updates_of, rounds))
    _measure.report("trace", figures | {"span_ns": round(span_ns())})


def compared(rates: dict[str, list[float]]) -> dict[str, object]:
    """Return the ratio, and both medians."""
    medians = {f"{name}_per_second": round(float(np.median(rates[name]))) for name in rates}
    return _measure.ratio(rates["on"], rates["off"]) | medians


def steps(address: Address, seconds: float, on: bool) -> float:
    """Return the steps per second of an actor, traced or not."""
    if not on:
        return acting(address, ENVIRONMENTS, seconds)
    with watching(address):
        return acting(address, ENVIRONMENTS, seconds)


@contextmanager
def watching(address: Address) -> Iterator[None]:
    """Receive the trace of a learner and its actors in a thread."""
    ended = threading.Event()

    def receive() -> None:
        wanted = [topics.trace("default")]
        with (
            sockets.context() as context,
            sockets.feed_subscriber(context, address, wanted) as feed,
        ):
            while not ended.is_set():
                if feed.poll(50):
                    feed.recv_multipart()

    thread = threading.Thread(target=receive)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def updates(loop: Loop, taker: Taker, on: bool) -> float:
    """Return the updates per second of a learner's loop, recorded or not."""
    if not on:
        taker.tracer.leave(taker)
    start = time.perf_counter()
    for number in range(UPDATES):
        if on and number % TAKE_EVERY == 0:
            taker.take(MOST)
        loop.do(UPDATE)
    return UPDATES / (time.perf_counter() - start)


def span_ns(count: int = 1_000_000) -> float:
    """Return the time of a span while none is recorded, without that of the loop around it."""
    tracer, numbers = Tracer(), range(count)
    start = time.perf_counter_ns()
    for _ in numbers:
        with tracer.span("window"):
            pass
    middle = time.perf_counter_ns()
    for _ in numbers:
        pass
    return (2 * middle - start - time.perf_counter_ns()) / count


if __name__ == "__main__":
    main()
