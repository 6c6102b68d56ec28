"""Parcels of 64 KiB per second under `--durability` fsync and process ÷ none, interleaved.

`python bench/durability.py [--quick] [--publish]` prints one JSON line. The sender is this process.
Each arm is a receiving process: PULL, receiver, journal (in the current folder, so on its disk),
queue, acknowledgement and `replay.add`. The arm `disk` writes the same bytes with an fdatasync
after every 8 MiB. Then one parcel at a time shows the time that each durability adds to an
acknowledgement.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

import _measure
import numpy as np

from bench import data_path
from bench.data_path import Ports, answer, ask, joined, ours, parcel, rate, spec_of
from farflung.actor.connection.sockets import Sockets
from farflung.common.net import sockets
from farflung.common.protocol.names import UNTIL_SHARE

SHAPE = data_path.SHAPES["64_KiB"]
ARMS = ("none", "process", "fsync")
MOST_BYTES = 1_000_000_000  # through one arm in all rounds
GROUP_BYTES = 8 << 20


def main() -> None:
    """Measure, or run as a receiving process."""
    if "--receive" in sys.argv:
        receive(sys.argv[-2], Path(sys.argv[-1]))
        return
    quick = "--quick" in sys.argv
    rounds, seconds, single = (2, 0.05, 20) if quick else (7, 0.5, 400)
    block = parcel(SHAPE)
    most = MOST_BYTES // (block.size * (rounds + 1))
    with ExitStack() as stack:
        context = stack.enter_context(sockets.context())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=".")))
        processes = {arm: stack.enter_context(receiver(arm, folder / arm)) for arm in ARMS}
        links = {
            arm: joined(context, Ports(*map(int, answer(process)), 0))
            for arm, process in processes.items()
        }
        arms = {arm: partial(ours, processes[arm], links[arm], block) for arm in ARMS}
        for run in arms.values():
            run(UNTIL_SHARE)  # from then on it is granted more than one at a time
        # Warm up with a full queue: fresh memory is slow.
        first = data_path.backlog(bytes(block.size))
        fitting = {arm: rate(partial(run, first), first) for arm, run in arms.items()}
        counts = {
            arm: min(most, max(64, int(seconds * per_second)))
            for arm, per_second in fitting.items()
        }
        timed = {arm: partial(rate, partial(arms[arm], counts[arm]), counts[arm]) for arm in ARMS}
        timed["disk"] = partial(plain, folder / "plain", block.size, counts["none"])
        rates = _measure.interleave(timed, rounds)
        latencies = {arm: acknowledgements(processes[arm], links[arm], single) for arm in ARMS}
        for link in links.values():
            link.close("measured", 1.0)
    figures = {
        f"{arm}_to_none": _measure.ratio(rates[arm], rates["none"]) for arm in ("process", "fsync")
    }
    figures["fsync_to_disk"] = _measure.ratio(rates["fsync"], rates["disk"])
    per_second: dict[str, object] = {
        f"{arm}_per_second": round(float(np.median(values))) for arm, values in rates.items()
    }
    usual = np.percentile(latencies["none"], (50, 99))
    added = {arm: np.percentile(latencies[arm], (50, 99)) - usual for arm in ("process", "fsync")}
    waits: dict[str, object] = {
        f"{arm}_adds_ms_p50_p99": [round(1000 * value, 2) for value in more]
        for arm, more in added.items()
    }
    none: dict[str, object] = {"none_ms_p50_p99": [round(1000 * value, 2) for value in usual]}
    found = {"bytes": block.size} | figures | per_second | none | waits
    _measure.report("durability", found, publishes=_measure.PUBLISH in sys.argv)


def acknowledgements(process: "subprocess.Popen[str]", link: Sockets, count: int) -> list[float]:
    """Return the seconds from sending to acknowledgement, one parcel at a time."""
    ask(process, "ours", count)
    block, taken = parcel(SHAPE), []
    for _ in range(count):
        while not link.client.outbox.idle:
            link.exchange(0.1)
        start = time.perf_counter()
        link.client.outbox.offer(block, block.rows, block.size)
        link.exchange()
        while not link.client.outbox.idle:
            link.exchange(0.1)
        taken.append(time.perf_counter() - start)
    answer(process)
    return taken


def plain(path: Path, size: int, count: int) -> float:
    """Return the parcels per second of plain writes with a sync after every group."""
    data, group = os.urandom(size), max(1, GROUP_BYTES // size)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    start = time.monotonic()
    for number in range(1, count + 1):
        os.write(descriptor, data)
        if number % group == 0 or number == count:
            os.fdatasync(descriptor)
    taken = time.monotonic() - start
    os.close(descriptor)
    return count / taken


def receiver(durability: str, folder: Path) -> "AbstractContextManager[subprocess.Popen[str]]":
    """Start a receiving process."""
    return _measure.other(__file__, "--receive", durability, folder)


def receive(durability: str, folder: Path) -> None:
    """Run a learner; answer each request with the time of its last parcel in the replay."""
    from bench import _learner  # imports torch, which the sender does not need
    from farflung.learner.endpoint.items import ItemLog, ItemQueue, Unlogged
    from farflung.learner.storage.journal.journal import Journal
    from farflung.learner.storage.journal.totals import JournalTotals

    def log(queue: ItemQueue) -> ItemLog:
        if durability == "none":
            return Unlogged(queue.put)
        totals = JournalTotals("bench")
        return Journal(folder, totals, 1, queue.put, durable=durability == "fsync")

    learner = _learner.learner_of(spec_of(SHAPE), data_path.CAPACITY)
    with _learner.listening(learner, log) as (link, loop):
        print(link.address.port, link.address.feed_port, flush=True)
        goal = 0
        for line in sys.stdin:
            goal += int(line.split()[1]) * parcel(SHAPE).rows
            while learner.core.state.steps < goal:
                _learner.drain(loop)
            print(time.monotonic(), flush=True)


if __name__ == "__main__":
    main()
