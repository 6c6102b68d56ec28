"""`learner status`: show the status of a running learner once; fail without progress."""

import time
from typing import TextIO

from farflung.common.net.address import Address
from farflung.common.net.diagnose import Finding, diagnose
from farflung.common.net.keys import ClientKeys
from farflung.common.net.sockets import Context, feed_subscriber
from farflung.common.process.errors import Exit, FarflungError, NotAllowed, Refused
from farflung.common.protocol.messages import State, Telemetry
from farflung.common.protocol.topics import broker, telemetry
from farflung.common.protocol.wire import open_frame, read
from farflung.learner.observe.formatting import duration, waiting
from farflung.learner.observe.screen import can_draw, line
from farflung.learner.observe.status import Status, from_document, to_document

PATIENCE_S = 1.5  # before the cause is diagnosed: a status comes every second
STALLED_S = 60.0  # without a step or an update; 0: for ever


class Unhealthy(FarflungError):
    """No learner answers, or it makes no progress. A health check reads the exit code."""

    exit_code = Exit.UNHEALTHY


def watch(
    context: Context,
    address: Address,
    stream: TextIO,
    as_json: bool = False,
    timeout_s: float = 5.0,
    keys: ClientKeys | None = None,
    stalled_s: float = STALLED_S,
) -> None:
    """Print the next status of the learner at this address.

    Raise `Unhealthy` if none comes, or if the learner makes no progress.
    """
    status = receive(context, address, timeout_s, keys)
    stream.write((to_document(status) if as_json else describe(status, stream)) + "\n")
    if status.state == State.RUN and 0 < stalled_s < status.idle_seconds:
        raise Unhealthy(
            f"no step and no update for {duration(status.idle_seconds)}: "
            f"{waiting(status.waiting) or 'neither side waits for the other'}"
        )


def receive(
    context: Context, address: Address, timeout_s: float, keys: ClientKeys | None = None
) -> Status:
    """Return the next readable status on the feed; raise `Unhealthy` when the time is over."""
    unread, relayed = "", False
    silent = Finding("")
    with feed_subscriber(context, address, [telemetry()], keys=keys) as socket:
        end = time.monotonic() + timeout_s
        if not socket.poll(int(min(timeout_s, PATIENCE_S) * 1000)):
            silent = diagnose(address, keys)
            if silent.final:
                raise NotAllowed(silent.text)
        while (left := end - time.monotonic()) > 0:
            if not socket.poll(max(1, int(left * 1000))):
                break
            topic, *_, frame = socket.recv_multipart()
            if topic.startswith(broker()):
                relayed = True
                continue
            try:
                return decode(frame)
            except Refused as refusal:
                unread = str(refusal)
    if unread:
        raise Unhealthy(
            f"the status of the learner at {address} cannot be read: {unread}. "
            "Use the same release on both sides."
        )
    if relayed:
        raise Unhealthy(
            f"a broker answers at {address}, but no learner behind it was heard within "
            f"{timeout_s:g} s: does one run, and does the broker reach it?"
        )
    why = silent.text or f"does a learner run there, with its feed on port {address.feed_port}?"
    raise Unhealthy(f"nothing heard from {address} within {timeout_s:g} s: {why}")


def decode(frame: bytes) -> Status:
    """Return the status in a telemetry message; raise `Refused` for any other bytes."""
    message = read(open_frame(frame))
    if not isinstance(message, Telemetry):
        raise Refused("kind", f"{type(message).__name__} is not expected here")
    return from_document(message.document)


def describe(status: Status, stream: TextIO) -> str:
    """Return the panel for a terminal that can show it, else one line."""
    if not can_draw(stream):
        return line(status)
    from rich.console import Console

    from farflung.learner.observe.panel import draw

    console = Console(file=stream)
    with console.capture() as captured:
        console.print(draw(status, console.width, console.height))
    return captured.get().rstrip("\n")
