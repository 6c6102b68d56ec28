"""Seconds from the `kill -9` of a learner until it trains again, with a small and a large replay.

`python bench/resume.py [--quick] [small|large]` prints one JSON line. The learner is an ordinary
process and is restarted at once with `--resume`; an actor stays. The learner trains again when a
beacon of its next epoch has more steps and updates than the first beacon after restoring. The
replay is full, of CartPole, with parcels as 16 environments send them. Its bytes are those of the
journal that it is restored from. The aim is 5 s + these bytes / 500 MB/s.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import _measure
import numpy as np

from farflung.common.data.parcel import Ending, Parcel, Results
from farflung.common.data.weights import Version, Weights
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.keys import ANY_CLIENT
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import Announcement, Beacon, State
from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.wire import Envelope
from farflung.learner.core.spec import SPEC
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.storage import manifest, recover
from farflung.learner.storage.journal import segments
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.manifest import REPLAY_FROM
from farflung.learner.storage.run_folder import Run, open_run

ROWS = {"small": 20_000, "large": 10_000_000}
HORIZON, ENVIRONMENTS = 32, 16
BATCH = 128
PATIENCE_S = 180.0
AIM_S, AIM_BYTES = 5.0, 500e6  # seconds, plus bytes of the replay per second
FLAGS = (
    "--ui",
    "lines",
    "--replay-ratio",
    "1",
    "--checkpoint-every",
    "2",
    "--durability",
    "process",
)


def main() -> None:
    """Measure each size."""
    quick = "--quick" in sys.argv
    names = [name for name in ROWS if name in sys.argv] or list(ROWS)
    figures: dict[str, object] = {}
    for name in names:
        figures[name] = measure(ROWS[name] // (10 if quick else 1), rounds=1 if quick else 5)
    _measure.report("resume", figures)


def measure(rows: int, rounds: int) -> dict[str, object]:
    """Measure one size of replay."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=".")))
        watcher = Watcher(stack.enter_context(sockets.context()))
        flags = (
            *FLAGS,
            "--run-dir",
            str(place),
            "--port",
            str(watcher.address.port),
            "--feed-port",
            str(watcher.address.feed_port),
        )
        begin = (*flags, "--name", "one", "--capacity", str(rows), "--horizon", str(HORIZON))
        with process("learner", *begin):
            watcher.until(lambda beacon: beacon.state is State.RUN)
        run = open_run(place / "one")
        fill(run, rows)
        again = (*flags, "--resume", str(run.folder))
        stack.enter_context(process("actor", str(watcher.address), "--envs", str(ENVIRONMENTS)))
        taken: list[float] = []
        killed_at, epoch = 0.0, 0
        for _ in range(1 + rounds):  # the first one restores the forged rows and saves a checkpoint
            with process("learner", *again) as learner:
                epoch = watcher.trains_on(epoch)
                taken.append(time.monotonic() - killed_at)
                saved = manifest.kept(run.folder)
                wait(lambda saved=saved: manifest.kept(run.folder) != saved)  # type: ignore[misc]
                learner.kill()
                killed_at = time.monotonic()
        size = replay_bytes(run)
    taken = taken[1:]
    aim_s = AIM_S + size / AIM_BYTES
    return {
        "rows": rows,
        "replay_bytes": size,
        "seconds": _measure.spread(taken, 2),
        "worst_s": round(max(taken), 2),
        "aim_s": round(aim_s, 2),
        "median_to_aim": round(statistics.median(taken) / aim_s, 2),
    }


def fill(run: Run, rows: int) -> None:
    """Write random rows into the journal, as one more epoch that trained on them."""
    past = recover.recover(run, durable=False)
    announced = wire.read(wire.open_frame(run.file(*SPEC).read_bytes()))
    assert isinstance(announced, Announcement)
    spec = announced.spec
    endpoint, form = (
        Endpoint.resume(spec, past.inbox, past.roster, time.monotonic()),
        ParcelCodec(spec),
    )
    endpoint.log = Journal(
        run.folder, past.totals, past.inbox.epoch, lambda items: None, durable=False
    )
    chance, count = np.random.default_rng(0), -(-rows // (HORIZON * ENVIRONMENTS))
    columns = {
        column.name: np.zeros(
            (column.count(HORIZON * ENVIRONMENTS, ENVIRONMENTS, spec.stack), *column.shape),
            column.dtype,
        )
        for column in spec.columns
    }
    lengths, endings = (
        np.full(ENVIRONMENTS, HORIZON, np.int32),
        np.full(ENVIRONMENTS, Ending.OPEN, np.uint8),
    )
    for number in range(1, count + 1):
        for column in columns.values():
            column[...] = chance.integers(0, 2, column.shape)
        parcel = Parcel(
            Version(1, 1), lengths, endings, columns, Results(np.zeros(0), np.zeros(0, np.int32))
        )
        envelope = Envelope(
            spec.run, spec.policy, "forged", 1, number, number, Version(1, 1), spec.schema
        )
        assert endpoint.receive([(bytes(form.encode(envelope, parcel)), ANY_CLIENT)], 0.0)
        if number % 256 == 0 or number == count:
            assert endpoint.log.drain(PATIENCE_S)
            endpoint.settle()
    endpoint.log.mark(
        Weights(spec.run, spec.policy, Version(past.inbox.epoch, 1), rows, rows // BATCH, (), b"")
    )
    assert endpoint.log.drain(PATIENCE_S)
    endpoint.log.close()


def replay_bytes(run: Run) -> int:
    """Return the bytes of the segments from which the newest checkpoint's replay is restored."""
    first = int(manifest.facts(run.folder, manifest.kept(run.folder)[-1])[REPLAY_FROM])
    journal = run.folder / segments.FOLDER
    return sum(
        len(segments.content(journal, number).rstrip(b"\0"))
        for number in segments.numbers(journal)
        if number >= first
    )


class Watcher:
    """Receives the beacons at an address."""

    def __init__(self, context: sockets.Context) -> None:
        self.address, *listening = sockets.listen(context, Address("127.0.0.1", 0, 0), 1)
        for socket in listening:
            socket.close(linger=0)
        self._feed = sockets.feed_subscriber(context, self.address, [topics.beacon()])

    def until(self, condition: Callable[[Beacon], bool]) -> Beacon:
        """Return the next beacon that meets the condition."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if self._feed.poll(1000):
                message = wire.read(wire.open_frame(self._feed.recv_multipart()[-1]))
                if isinstance(message, Beacon) and condition(message):
                    return message
        raise TimeoutError("no such beacon arrived")

    def trains_on(self, after: int) -> int:
        """Wait until a later epoch has new steps and updates; return that epoch."""
        first = self.until(
            lambda beacon: beacon.version.epoch > after and beacon.state is State.RUN
        )
        self.until(
            lambda beacon: (
                beacon.version.epoch == first.version.epoch
                and beacon.steps > first.steps
                and beacon.updates > first.updates
            )
        )
        return first.version.epoch


def wait(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the condition never held")
        time.sleep(0.01)


@contextmanager
def process(role: str, *words: str) -> "Iterator[subprocess.Popen[bytes]]":
    """Run an actor or a learner while the block runs."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = (sys.executable, "-P", "-m", f"farflung.{role}.main", *words)
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=kept,
    ) as started:
        try:
            yield started
        finally:
            with suppress(ProcessLookupError):
                started.terminate()
            started.wait()


if __name__ == "__main__":
    main()
