"""Events of a socket, as zmq_socket_monitor(3) has them.

zmq.utils.monitor would import asyncio: 3 MB, and a twentieth of an actor's start.
"""

import struct

import zmq

EVENT = struct.Struct("=Hi")


def receive(monitor: "zmq.Socket[bytes]") -> tuple[int, int]:
    """Return the next event and its value."""
    event, value = EVENT.unpack(monitor.recv_multipart()[0])
    return event, value
