"""One watched connection attempt, which shows whether a server accepts a key."""

import time
from enum import Enum

import zmq

from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.keys import ClientKeys
from farflung.common.net.monitor import receive
from farflung.common.net.sockets import Context

CLOSED_TIMES = 3  # one cut connection may have another cause


class Outcome(Enum):
    """The result of an attempt."""

    ACCEPTED = "the server accepted it"
    REFUSED = "the server does not allow its key"
    CLOSED = "the server hung up"  # as a server with another key than the expected one does
    NOTHING = "the server did not answer"


def attempt(
    context: Context, address: Address, kind: int, keys: ClientKeys | None, within_s: float
) -> Outcome:
    """Dial one port of a server, with PUSH for experience or SUB for the feed."""
    events = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    events |= zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    with (
        sockets.probe(context, kind, address, keys) as socket,
        socket.get_monitor_socket(events) as monitor,
    ):
        socket.connect(address.experience if kind == zmq.PUSH else address.feed)
        try:
            return _outcome(monitor, time.monotonic() + within_s)
        finally:
            socket.disable_monitor()


def _outcome(monitor: sockets.Socket, end: float) -> Outcome:
    """Return what the events until `end` mean."""
    closed = 0
    while closed < CLOSED_TIMES and (left := end - time.monotonic()) > 0:
        if not monitor.poll(max(1, int(left * 1000))):
            break
        event, _ = receive(monitor)
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            return Outcome.ACCEPTED
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            return Outcome.REFUSED
        closed += 1
    return Outcome.CLOSED if closed else Outcome.NOTHING
