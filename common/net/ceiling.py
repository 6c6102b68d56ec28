"""Bounds of a connection that the kernel keeps: on its bytes, and on the size of its segments.

What comes beyond the bound on its bytes is dropped. A filter on the socket compares sequence
numbers, and needs no privilege. TCP repeats what was dropped, so nothing is lost where the bound is
raised in time. Only Linux has it.
"""

import ctypes
import socket
import struct
import sys
from contextlib import suppress

SAVE_SYN, SAVED_SYN, SYN_BYTES = 27, 28, 512  # tcp(7): the packet that opened a connection
ATTACH_FILTER, DETACH_FILTER = 26, 27  # socket(7)
WORD = 1 << 32  # sequence numbers wrap around

# Instructions of the classic filter, which sees a packet from its TCP header on.
INSTRUCTION = struct.Struct("=HBBI")  # code, jumps if true and if false, operand
LOAD_WORD, SUBTRACT, JUMP_IF_SET, RETURN = 0x20, 0x14, 0x45, 0x06
SEQUENCE, NEGATIVE = 4, 1 << 31  # where its sequence number is; the sign of a difference
TAKE, DROP = WORD - 1, 0
PROGRAM = struct.Struct("@HP")  # number of instructions, and their address
IPV6_HEADER = 40

SEGMENT_BYTES = 1460  # what an Ethernet frame carries


def prepare(listening: int) -> None:
    """Let the kernel keep the first packet of each connection to a listening descriptor."""
    if sys.platform != "linux":
        return
    own = socket.socket(fileno=listening)
    try:
        with suppress(OSError):
            own.setsockopt(socket.IPPROTO_TCP, SAVE_SYN, 1)
    finally:
        own.detach()  # it is libzmq's


def limit_segments(listening: int) -> None:
    """Have connections to a listening descriptor use segments that fit into a short window.

    Over loopback a segment may have 64 KiB, and Linux sends none that the window has no room for. A
    broker was seen to send no subscription any more to a learner that published all the time: its
    window was 12,572 bytes, a segment 14,400. Its timer for that case waited; each packet from the
    other side seems to begin it again.
    """
    if sys.platform != "linux":
        return
    own = socket.socket(fileno=listening)
    try:
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
    finally:
        own.detach()  # it is libzmq's


def first_byte(connection: socket.socket) -> int | None:
    """Return the sequence number of the first byte; None if the kernel does not tell."""
    if sys.platform != "linux":
        return None
    try:
        packet = connection.getsockopt(socket.IPPROTO_TCP, SAVED_SYN, SYN_BYTES)
        header = 4 * (packet[0] & 15) if packet[0] >> 4 == 4 else IPV6_HEADER
        (number,) = struct.unpack_from(">I", packet, header + SEQUENCE)
    except (OSError, IndexError, struct.error):
        return None
    return (int(number) + 1) % WORD


def bound(connection: socket.socket, first: int, size: int) -> None:
    """Take the first `size` bytes of a connection and drop what comes beyond, from now on."""
    program = (
        (LOAD_WORD, 0, 0, SEQUENCE),
        (SUBTRACT, 0, 0, (first + size) % WORD),
        (JUMP_IF_SET, 0, 1, NEGATIVE),
        (RETURN, 0, 0, TAKE),
        (RETURN, 0, 0, DROP),
    )
    code = ctypes.create_string_buffer(b"".join(INSTRUCTION.pack(*each) for each in program))
    attached = PROGRAM.pack(len(program), ctypes.addressof(code))
    with suppress(OSError):  # a system that forbids it: the looks of the watch remain
        connection.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, attached)


def unbound(connection: socket.socket) -> None:
    """Take all bytes again."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, DETACH_FILTER, 0)
