"""The authenticator: admits the clients in the `allowed/` folder, and numbers connections.

libzmq asks it about each connection (ZAP, RFC 27), without keys too.

This is not pyzmq's `ThreadAuthenticator`. Its thread dies on the first exception in a callback,
silently, and its `stop()` then waits for ever (tried with pyzmq 27.3). It has no timer to follow a
folder, and its import costs 50 ms.
"""

import logging
import threading
import time
from dataclasses import replace
from itertools import count
from pathlib import Path

import zmq
from zmq.utils import z85

from farflung.common.net import handshake, sockets
from farflung.common.net.address import Address
from farflung.common.net.handshake import Outcome
from farflung.common.net.keys import ANY_CLIENT, Client, ClientKeys, ServerKeys, allowed_client
from farflung.common.net.sockets import Context
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.log import once_every

log = logging.getLogger(__name__)

ENDPOINT = "inproc://zeromq.zap.01"  # libzmq's requests, in the context of the listening socket
POLL_MS = 100
FOLLOW_S = 0.5  # between two looks at the folder
PROVE_S = 5.0
SENDERS = 1 << 14  # remembered; beyond that all are forgotten, and read again from their frames

Stamps = dict[str, tuple[int, int, int]]


class Authenticator:
    """Answers libzmq's requests in a thread of its own and follows the folder of allowed clients.

    Each connection gets a number, which every frame that it brings shows. With keys it fails
    closed: once its thread has ended, libzmq admits no client.
    """

    def __init__(self, context: Context, keys: ServerKeys | None) -> None:
        # By public key; replaced as a whole. Without keys every client has the empty one.
        self.clients: dict[str, Client] = {"": ANY_CLIENT} if keys is None else {}
        self.revocations = 0  # rises when an allowed client is allowed no longer
        self._folder = keys.allowed if keys is not None else None
        self._stranger = "-"  # the unknown key with which `prove` dials
        self._numbers = count(1)  # of connections
        self._senders: dict[str, Client | None] = {}  # by user id; the listener's thread has it
        self._senders_of = self.clients
        self._stamps: Stamps = {}
        self._followed_at = 0.0
        self._failure: BaseException | None = None
        self._closing = threading.Event()
        self._follow()
        self._socket = context.socket(zmq.REP)
        self._socket.set(zmq.LINGER, 0)
        self._socket.bind(ENDPOINT)
        self._thread = threading.Thread(target=self._run, name="authenticator", daemon=True)
        self._thread.start()

    def sender(self, frame: zmq.Frame) -> Client | None:
        """Return the client that sent a frame, with its connection's number and address.

        The number is unique within the life of this authenticator, which is that of its process,
        and never used again. Return None once the client's key is revoked. A frame without a
        connection is libzmq's report that a subscriber has gone: None with keys, else ANY_CLIENT.
        """
        try:
            user = str(frame.get("User-Id"))
        except zmq.ZMQError:
            return self.clients.get("")
        clients = self.clients
        if clients is not self._senders_of or len(self._senders) >= SENDERS:
            self._senders, self._senders_of = {}, clients
        if user not in self._senders:
            number, address, key = user.split(" ")
            client = clients.get(key)
            self._senders[user] = client and replace(
                client, connection=int(number), address=address
            )
        return self._senders[user]

    def check(self) -> None:
        """Raise the error that ended the thread, if one did."""
        if self._failure is not None:
            raise RuntimeError("the authenticator failed") from self._failure

    def prove(self, address: Address, keys: ServerKeys) -> None:
        """Dial the server with an unknown key, and raise unless both of its ports refuse it."""
        public, secret = zmq.curve_keypair()
        self._stranger = public.decode()
        stranger = ClientKeys(Path("-"), ANY_CLIENT, public, secret, keys.public)
        with sockets.context() as context:
            for kind, port in ((zmq.PUSH, address.port), (zmq.SUB, address.feed_port)):
                outcome = handshake.attempt(
                    context, address.seen_from_here, kind, stranger, PROVE_S
                )
                if outcome is not Outcome.REFUSED:
                    raise ConfigurationError(
                        f"port {port} did not refuse an unknown key ({outcome.value}): "
                        "not opening it. Please report this"
                    )

    def close(self) -> None:
        """Stop the thread; from now on libzmq admits no client."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                if self._socket.poll(POLL_MS):
                    self._socket.send_multipart(self._answer(self._socket.recv_multipart()))
                if time.monotonic() - self._followed_at >= FOLLOW_S:
                    self._follow()
        except BaseException as error:  # the top of a thread: `check` raises it in the listener's
            log.exception("the authenticator failed")
            self._failure = error
        finally:
            # Closing alone frees the name a moment later, too late for the next authenticator.
            self._socket.unbind(ENDPOINT)
            self._socket.close()

    def _answer(self, request: list[bytes]) -> list[bytes]:
        """Return the reply to a ZAP request.

        The user id has the key, not the label: another key under the same label is another client.
        """
        version, number, _domain, address, _identity, mechanism, *credentials = request
        is_curve = mechanism == b"CURVE" and bool(credentials)
        key = z85.encode(credentials[0]).decode() if is_curve else ""
        if key not in self.clients:
            self._follow()  # the key may be a moment old
        if key in self.clients:
            user = f"{next(self._numbers)} {address.decode()} {key}".encode()
            return [version, number, b"200", b"", user, b""]
        if key != self._stranger:
            log.warning("refused a key that is not allowed: %s", key, extra=once_every(10))
        return [version, number, b"400", b"not allowed", b"", b""]

    def _follow(self) -> None:
        """Read the folder again if a file in it has changed."""
        self._followed_at = time.monotonic()
        if self._folder is None:
            return
        stamps = _stamps(self._folder)
        if stamps == self._stamps:
            return
        before, self.clients = self.clients, _read(self._folder, stamps)
        self._stamps = stamps
        revoked, allowed = _missing(before, self.clients), _missing(self.clients, before)
        if allowed:
            log.info("allowed: %s", ", ".join(allowed))
        if revoked:
            log.warning("revoked: %s", ", ".join(revoked))
            self.revocations += 1


def _missing(some: dict[str, Client], others: dict[str, Client]) -> list[str]:
    """Return the labels of the clients that are not among the others under the same key."""
    return sorted({client.label for key, client in some.items() if others.get(key) != client})


def _stamps(folder: Path) -> Stamps:
    """Return times, sizes and inodes by file name: a change in one shows a change in the folder."""
    found: Stamps = {}
    for path in folder.glob("*.pub"):
        try:
            status = path.stat()
        except OSError:
            continue  # removed since the listing
        found[path.name] = status.st_mtime_ns, status.st_size, status.st_ino
    return found


def _read(folder: Path, names: Stamps) -> dict[str, Client]:
    """Return the allowed clients by key; log and skip a malformed file."""
    clients: dict[str, Client] = {}
    for name in sorted(names):
        try:
            key, client = allowed_client(folder / name)
        except ConfigurationError as error:
            log.warning("skipping a malformed key file: %s", error)
            continue
        clients[key] = client
    return clients
