"""One attempt to connect, watched: whether the other side lets us in."""

import time
from enum import Enum

import zmq
from zmq.utils.monitor import parse_monitor_message

from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.keys import ClientKeys
from farflung.common.net.sockets import Context

CLOSED_TIMES = 3  # a connection may be cut once for other reasons


class Outcome(Enum):
    """What became of it."""

    ACCEPTED = "it was let in"
    REFUSED = "its key is not allowed"
    CLOSED = "the other side hung up"  # what somebody does who has another key than the one that we know it by
    NOTHING = "there was no answer"


def attempt(
    context: Context, address: Address, kind: int, keys: ClientKeys | None, within_s: float
) -> Outcome:
    """Dial one port of a server, PUSH the one for experience and SUB the one of the feed, and see."""
    events = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    events |= zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    closed, end = 0, time.monotonic() + within_s
    with (
        sockets.visitor(context, kind, address, keys) as socket,
        socket.get_monitor_socket(events) as monitor,
    ):
        socket.connect(address.experience if kind == zmq.PUSH else address.feed)
        try:
            while closed < CLOSED_TIMES and (left := end - time.monotonic()) > 0:
                if not monitor.poll(max(1, int(left * 1000))):
                    break
                event = parse_monitor_message(monitor.recv_multipart())["event"]
                if event in (zmq.EVENT_HANDSHAKE_SUCCEEDED, zmq.EVENT_HANDSHAKE_FAILED_AUTH):
                    return (
                        Outcome.ACCEPTED
                        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED
                        else Outcome.REFUSED
                    )
                closed += 1
            return Outcome.CLOSED if closed else Outcome.NOTHING
        finally:
            socket.disable_monitor()
