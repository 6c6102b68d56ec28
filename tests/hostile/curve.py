"""A client with a key, without libzmq: ZMTP 3.0 with CurveZMQ (RFC 26) by hand.

libzmq sends a message once it has its end. This client never has to end one.
"""

import ctypes
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ctypes.util import find_library
from pathlib import Path

import zmq
from hostile.attacks import attack
from hostile.known import rounds
from hostile.peer import SEND_S, Peer
from zmq.utils import z85

from farflung.common.net.address import Address
from farflung.common.net.keys import ClientKeys

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00CURVE" + bytes(15 + 1 + 31)
METADATA = b"\x0bSocket-Type\x00\x00\x00\x04PUSH"
TAG = 16  # bytes that a box is longer than its content
CONTENT = bytes(1 << 20)
MORE = b"\x01"


def sodium() -> ctypes.CDLL:
    """Return the library that pyzmq brings, or the system's."""
    brought = Path(zmq.__file__).parents[1].glob("pyzmq.libs/libsodium*")
    path = next(map(str, brought), None) or find_library("sodium")
    assert path is not None, "no libsodium"
    return ctypes.CDLL(path)


class Box:
    """Boxes from our secret key for another's public key."""

    def __init__(self, theirs: bytes, secret: bytes) -> None:
        self._library, self._keys = sodium(), (theirs, secret)

    def seal(self, content: bytes, nonce: bytes) -> bytes:
        """Return the content in a box."""
        return self._call("crypto_box_easy", content, nonce, len(content) + TAG)

    def open(self, sealed: bytes, nonce: bytes) -> bytes:
        """Return the content of a box."""
        return self._call("crypto_box_open_easy", sealed, nonce, len(sealed) - TAG)

    def _call(self, name: str, given: bytes, nonce: bytes, size: int) -> bytes:
        made = ctypes.create_string_buffer(size)
        length = ctypes.c_ulonglong(len(given))
        assert getattr(self._library, name)(made, given, length, nonce, *self._keys) == 0, name
        return made.raw


def pair() -> tuple[bytes, bytes]:
    """Return a fresh key pair."""
    public, secret = zmq.curve_keypair()
    return z85.decode(public), z85.decode(secret)


def framed(content: bytes, flags: int) -> bytes:
    """Return a command (flag 4) or a message of ZMTP 3.0."""
    if len(content) < 256:
        return struct.pack(">BB", flags, len(content)) + content
    return struct.pack(">BQ", flags | 2, len(content)) + content


def received(opened: socket.socket) -> bytes:
    """Return the next command; all that are received here are short."""
    _, size = exactly(opened, 2)
    return exactly(opened, size)


def exactly(opened: socket.socket, size: int) -> bytes:
    """Receive so many bytes."""
    found = b""
    while len(found) < size:
        if not (more := opened.recv(size - len(found))):
            raise ConnectionError("the handshake was refused")
        found += more
    return found


@contextmanager
def by_hand_with_key(address: Address, keys: ClientKeys) -> Iterator[Callable[[bytes], None]]:
    """Yield a function that sends parts of one message, each with more to come."""
    server, public, secret = (z85.decode(key) for key in (keys.server, keys.public, keys.secret))
    with socket.create_connection((address.host, address.port), SEND_S) as opened:
        opened.sendall(GREETING)
        exactly(opened, len(GREETING))
        ours, hidden = pair()  # for this connection alone
        number = struct.pack(">Q", 1)
        hello = Box(server, hidden).seal(bytes(64), b"CurveZMQHELLO---" + number)
        opened.sendall(framed(b"\x05HELLO\x01\x00" + bytes(72) + ours + number + hello, 4))
        welcome = received(opened)
        opened_box = Box(server, hidden).open(welcome[24:], b"WELCOME-" + welcome[8:24])
        theirs, cookie = opened_box[:32], opened_box[32:]
        nonce = os.urandom(16)
        vouch = nonce + Box(theirs, secret).seal(ours + server, b"VOUCH---" + nonce)
        box, number = Box(theirs, hidden), struct.pack(">Q", 2)
        told = box.seal(public + vouch + METADATA, b"CurveZMQINITIATE" + number)
        opened.sendall(framed(b"\x08INITIATE" + cookie + number + told, 4))
        if not received(opened).startswith(b"\x05READY"):
            raise ConnectionError("the handshake was refused")
        sent = 2

        def send(content: bytes) -> None:
            nonlocal sent
            sent += 1
            number = struct.pack(">Q", sent)
            sealed = box.seal(MORE + content, b"CurveZMQMESSAGEC" + number)
            opened.sendall(framed(b"\x07MESSAGE" + number + sealed, 0))

        yield send


@attack("message without an end, with a key")
def endless_with_key(peer: Peer, seconds: float) -> None:
    """Send part after part of one message, as fast as they go; dial again when cut off."""
    if peer.keys is None:
        return  # the same without a key is an attack of its own
    for _ in rounds(seconds, 0.5):
        with suppress(OSError), by_hand_with_key(peer.address, peer.keys) as send:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                send(CONTENT)
