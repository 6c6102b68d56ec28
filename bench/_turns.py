"""One arm of `bench/in_turns.py`: a turn for each line that comes, and its rate as the answer.

`python _turns.py ARM` imports the benchmarks and the code of the checkout in which it is started.
"""

import importlib
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

FIRST = 256  # messages until an actor has its credit
SECONDS = 0.25  # of a turn


def main() -> None:
    """Do a turn for each line."""
    kind, _, which = sys.argv[1].partition(".")
    sys.path[:1] = [str(Path.cwd()), str(Path.cwd() / "bench")]  # not those of this script
    served: dict[str, Callable[[str, ExitStack], Callable[[], float]]] = {
        "data_path": data_path_arm,
        "raw": raw_arm,
        "relay": relay_arm,
        "actor": actor_arm,
    }
    with ExitStack() as stack:
        turn = served[kind](which, stack)
        for _ in sys.stdin:
            print(turn(), flush=True)


def data_path_arm(shape: str, stack: ExitStack) -> Callable[[], float]:
    """Send parcels of a shape to a learner in another process."""
    bench: Any = importlib.import_module("bench.data_path")
    sockets: Any = importlib.import_module("farflung.common.net.sockets")
    of = bench.SHAPES[shape]
    process, context = (
        stack.enter_context(bench.receiver(of)),
        stack.enter_context(sockets.context()),
    )
    link = bench.joined(context, bench.Ports(*map(int, bench.answer(process))))
    stack.callback(link.close, "measured", 1.0)
    return paced(bench, partial(bench.ours, process, link, bench.parcel(of)))


def raw_arm(shape: str, stack: ExitStack) -> Callable[[], float]:
    """Send the bytes of such a parcel with nothing but ZeroMQ."""
    bench: Any = importlib.import_module("bench.data_path")
    sockets: Any = importlib.import_module("farflung.common.net.sockets")
    zmq: Any = importlib.import_module("zmq")
    of = bench.SHAPES[shape]
    process, context = (
        stack.enter_context(bench.receiver(of)),
        stack.enter_context(sockets.context()),
    )
    ports, frame = bench.Ports(*map(int, bench.answer(process))), bytes(bench.parcel(of).size)
    raw = context.socket(zmq.PUSH)
    stack.callback(raw.close, 0)
    raw.set(zmq.SNDHWM, bench.backlog(frame))
    raw.connect(f"tcp://127.0.0.1:{ports.raw}")
    return paced(bench, partial(bench.push, process, raw, frame, False))


def relay_arm(way: str, stack: ExitStack) -> Callable[[], float]:
    """Send parcels of 64 KiB to a learner, around a broker or through it."""
    bench: Any = importlib.import_module("bench.data_path")
    relay: Any = importlib.import_module("bench.relay")
    sockets: Any = importlib.import_module("farflung.common.net.sockets")
    address: Any = importlib.import_module("farflung.common.net.address")
    process = stack.enter_context(bench.receiver(relay.SHAPE))
    context = stack.enter_context(sockets.context())
    ports = bench.Ports(*map(int, bench.answer(process)))
    where = address.Address("127.0.0.1", ports.experience, ports.feed)
    if way == "relayed":
        where = stack.enter_context(relay.broker(where))[1]
    link = relay.joined(context, where, way)
    stack.callback(link.close, "measured", 1.0)
    return paced(bench, partial(bench.ours, process, link, bench.parcel(relay.SHAPE)))


def actor_arm(count: str, stack: ExitStack) -> Callable[[], float]:
    """Run a complete actor with so many environments, from its start to its end."""
    bench: Any = importlib.import_module("bench.actor")
    address = stack.enter_context(bench.draining_learner())
    return partial(bench.acting, address, int(count), 2 * SECONDS)


def paced(bench: Any, arm: Callable[[int], float]) -> Callable[[], float]:
    """Return a turn of as many messages as take about its time."""
    arm(FIRST)
    count = max(FIRST, int(SECONDS * bench.rate(partial(arm, FIRST), FIRST)))
    return lambda: float(bench.rate(partial(arm, count), count))


if __name__ == "__main__":
    main()
