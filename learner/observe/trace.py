"""`learner trace`: watch the spans of a learner and its actors for a while, and write them down."""

import time
from pathlib import Path
from typing import TextIO

from farflung.common.net.address import Address
from farflung.common.net.keys import ClientKeys
from farflung.common.net.sockets import Context, feed_subscriber
from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol import topics
from farflung.common.protocol.messages import Trace
from farflung.common.protocol.wire import Kind, open_frame, read
from farflung.learner.observe.recording import LEARNER, Process, Recording
from farflung.learner.observe.watch import Unhealthy, receive

MOST_S = 60.0
BEGINS_S = 5.0  # until the first spans: the subscription may pass brokers
BACKLOG = 4096  # messages that wait here
STEP_MS = 200


def trace(
    context: Context,
    address: Address,
    file: Path,
    seconds: float,
    stream: TextIO,
    keys: ClientKeys | None = None,
) -> None:
    """Write the spans of so many seconds to a file; say on a stream what is in it.

    Raise `Unhealthy` if no learner answers there, or none that sends spans.
    """
    require_possible(file, seconds)
    policy = receive(context, address, BEGINS_S, keys).policy
    recording = record(context, address, policy, seconds, keys)
    if not recording.processes:
        raise Unhealthy(
            f"the learner at {address} answers, but sends no spans: is it of an older release, "
            "or behind a broker of one?"
        )
    atomic_file.write(file, recording.document().encode())
    stream.writelines(f"{line}\n" for line in summary(recording, file, seconds))


def require_possible(file: Path, seconds: float) -> None:
    """Refuse a time or a file before anything is recorded."""
    if not 0 < seconds <= MOST_S:
        raise ConfigurationError(f"--seconds {seconds:g}: a number up to {MOST_S:g}")
    if not file.parent.is_dir() or file.is_dir():
        raise ConfigurationError(f"{file} cannot be written: name a file in a folder that is there")


def record(
    context: Context, address: Address, policy: str, seconds: float, keys: ClientKeys | None
) -> Recording:
    """Return what is recorded from the first message on, for so many seconds."""
    recording = Recording()
    topic = topics.trace(policy)
    with feed_subscriber(context, address, [topic], backlog=BACKLOG, keys=keys) as socket:
        end = time.monotonic() + BEGINS_S
        began = False
        while (now := time.monotonic()) < end:
            if not socket.poll(max(1, min(STEP_MS, int((end - now) * 1000)))):
                continue
            if not began:
                began, end = True, time.monotonic() + seconds
            take(recording, socket.recv_multipart()[-1])
    return recording


def take(recording: Recording, frame: bytes) -> None:
    """Add a message to a recording; pass over one that cannot be read."""
    try:
        message = read(open_frame(frame, (Kind.TRACE,)))
        assert isinstance(message, Trace)
        recording.add(message)
    except Refused:
        recording.passed_over += 1


def summary(recording: Recording, file: Path, seconds: float) -> list[str]:
    """Return the lines about a recording: one for each process, with the error of its clock."""
    processes = recording.sorted
    spans = sum(len(process.spans) for process in processes)
    shares = recording.shares
    lines = [
        f"{seconds:g} s of run {recording.run}, policy {recording.policy}: {spans:,} spans of "
        f"{len(processes)} processes in {file}",
        *map(line, processes),
        f"training {shares.training:.0%} of the time, collection {shares.collection:.0%}, "
        f"both at once {shares.both:.0%}",
    ]
    if recording.passed_over:
        lines.append(f"{recording.passed_over:,} messages could not be read and are not in it")
    return [*lines, "open it at https://ui.perfetto.dev, or use --open"]


def line(process: Process) -> str:
    """Return the line about one process."""
    clock = process.clock
    parts = [f"{len(process.spans):,} spans"]
    if process.name != LEARNER:
        ahead_s, error_ms = clock.ahead_us / 1e6, clock.error_us / 1e3
        trips = f"{len(process.trips)} round trips"
        parts.append(f"clock {ahead_s:+.6f} s, within {error_ms:.3f} ms ({trips})")
    if process.lost:
        parts.append(f"{process.lost:,} more had no room")
    if process.refused:
        parts.append(f"{process.refused:,} refused, of another time")
    return f"  {process.name}: {', '.join(parts)}"
