"""The authenticator: admits the clients in the `allowed/` folder, and numbers connections.

libzmq asks it about each connection (ZAP, RFC 27), without keys too.

This is not pyzmq's `ThreadAuthenticator`. Its thread dies on the first exception in a callback,
silently, and its `stop()` then waits for ever (tried with pyzmq 27.3). It has no timer to follow a
folder, and its import costs 50 ms.
"""

import errno
import logging
import threading
import time
from dataclasses import replace
from pathlib import Path

import zmq
from zmq.utils import z85

from farflung.common.net import handshake, sockets
from farflung.common.net.address import Address
from farflung.common.net.connection_watch import ConnectionWatch
from farflung.common.net.connections import Handed, network
from farflung.common.net.handshake import Outcome
from farflung.common.net.keys import ANY_CLIENT, Client, ClientKeys, ServerKeys, allowed_client
from farflung.common.net.pace import Owner
from farflung.common.net.sockets import Context
from farflung.common.process import descriptors
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.log import once_every

log = logging.getLogger(__name__)

ENDPOINT = "inproc://zeromq.zap.01"  # libzmq's requests, in the context of the listening socket
FOLLOW_S = 0.5  # between two looks at the folder
LEAST_FOLLOW_S = 0.05  # unless its names have changed: each unknown key asks for a look
# Errors of the system and not of a file: the clients stay as they are until it is over.
PASSING = (*descriptors.EXHAUSTED, errno.ENOMEM, errno.EIO, errno.ESTALE)
PROVE_S = 5.0
DESCRIPTOR = "__fd"  # of the connection: libzmq's own name, which ZMQ_SRCFD reads too
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
        self._numbered = 0  # connections so far
        # By user id, with the count of what each sent; the listener's thread has it.
        self._senders: dict[str, tuple[Client | None, Handed]] = {}
        self._senders_of = self.clients
        self._stamps: Stamps = {}
        self._names_changed_at = 0  # when a name in the folder last changed
        self._followed_at = 0.0
        self._blind = False  # the last look at the folder failed
        self._failure: BaseException | None = None
        self._closing = threading.Event()
        self._read_first()
        self.watch = ConnectionWatch(context, descriptors.for_connections())
        self._socket = context.socket(zmq.ROUTER)  # a connection may have to wait for its answer
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
        known = self._senders.get(user)
        if known is None or self.clients is not self._senders_of:
            known = self._know(frame, user)
        client, handed = known
        handed.size += len(frame)
        handed.messages += 1
        return client

    def check(self) -> None:
        """Raise the error that ended the thread, if one did."""
        if self._failure is not None:
            raise RuntimeError("the authenticator failed") from self._failure

    def prove(self, address: Address, keys: ServerKeys) -> None:
        """Dial the server with an unknown key, and raise unless both of its ports refuse it."""
        public, secret = zmq.curve_keypair()
        self._stranger = public.decode()
        stranger = ClientKeys(Path("-"), ANY_CLIENT, public, secret, keys.public)
        dialled = address.seen_from_here
        with sockets.context() as context:
            for kind, port in ((zmq.PUSH, address.port), (zmq.SUB, address.feed_port)):
                outcome = handshake.attempt(context, dialled, kind, stranger, PROVE_S)
                if outcome is not Outcome.REFUSED:
                    raise ConfigurationError(
                        f"port {port} did not refuse an unknown key ({outcome.value}): "
                        "not opening it. Please report this"
                    )

    def close(self) -> None:
        """Stop the thread; from now on libzmq admits no client."""
        self._closing.set()
        self._thread.join()
        self.watch.close()

    def _know(self, frame: zmq.Frame, user: str) -> tuple[Client | None, Handed]:
        """Return the sender that a user id names, as clients are now."""
        if (clients := self.clients) is not self._senders_of or len(self._senders) >= SENDERS:
            self._senders, self._senders_of = {}, clients
        found = self._senders[user] = self._identify(frame, *user.split(" "))
        return found

    def _identify(
        self, frame: zmq.Frame, number: str, address: str, key: str
    ) -> tuple[Client | None, Handed]:
        """Return the sender that a user id names, and tell the watch of its connection."""
        client, handed = self._senders_of.get(key), Handed()
        if client is None:
            return None, handed
        descriptor = int(str(frame.get(DESCRIPTOR)))
        self.watch.first_frames.append((descriptor, int(number), client.label, handed))
        return replace(client, connection=int(number), address=address), handed

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                wanted = [(socket, zmq.POLLIN) for socket in (self._socket, *self.watch.monitors)]
                zmq.zmq_poll(wanted, round(1000 * self.watch.turn_s))
                request = self._socket.recv_multipart() if sockets.readable(self._socket) else None
                now = time.monotonic()
                # First the connection, then its number: so the watch tells old from new.
                self.watch.read(self._numbered, now)
                self._admit(request, now)
                if now - self._followed_at >= FOLLOW_S:
                    self._follow()
        except BaseException as error:  # the top of a thread: `check` raises it in the listener's
            log.exception("the authenticator failed")
            self._failure = error
        finally:
            # Closing alone frees the name a moment later, too late for the next authenticator.
            self._socket.unbind(ENDPOINT)
            self._socket.close()

    def _admit(self, request: list[bytes] | None, now: float) -> None:
        """Answer a request and those that waited, unless a connection to a feed has to wait."""
        ready = list(self.watch.pace.due(now))
        if request is not None and self._comes_at_once(request, now):
            ready.append(request)
        for route, empty, *asked in ready:
            self._socket.send_multipart([route, empty, *self._answer(asked)])

    def _comes_at_once(self, request: list[bytes], now: float) -> bool:
        _, _, _version, _number, domain, address, *_ = request
        if domain != sockets.FEED_DOMAIN:
            return True
        client = self.clients.get(_key(request[2:]))
        label = client.label if client is not None else ""
        return self.watch.pace.take(Owner(network(address.decode()), label), request, now)

    def _answer(self, request: list[bytes]) -> list[bytes]:
        """Return the reply to a ZAP request.

        The user id has the key, not the label: another key under the same label is another client.
        """
        version, number, _domain, address, *_ = request
        key = _key(request)
        if key not in self.clients:
            self._follow_unknown()  # the key may be a moment old
        if key in self.clients:
            self._numbered += 1
            user = f"{self._numbered} {address.decode()} {key}".encode()
            return [version, number, b"200", b"", user, b""]
        if key != self._stranger:
            log.warning("refused a key that is not allowed: %s", key, extra=once_every(10))
        return [version, number, b"400", b"not allowed", b"", b""]

    def _read_first(self) -> None:
        """Read the folder before the first connection; raise if that fails."""
        try:
            self._look()
        except OSError as error:
            raise ConfigurationError(
                f"the allowed keys in {self._folder} cannot be read: {error.strerror}"
            ) from error

    def _follow(self) -> None:
        """Read the folder again if a file in it has changed; if that fails, keep what was read."""
        self._followed_at = time.monotonic()
        try:
            self._look()
        except OSError as error:
            if not self._blind:
                text = "cannot look at the allowed keys in %s, so they stay as they are: %s"
                log.warning(text, self._folder, error.strerror)
            self._blind = True
            return
        if self._blind:
            self._blind = False
            log.info("the allowed keys in %s are looked at again", self._folder)

    def _follow_unknown(self) -> None:
        """Read the folder for an unknown key, unless that was done a moment ago."""
        if (
            time.monotonic() - self._followed_at >= LEAST_FOLLOW_S
            or _changed_at(self._folder) != self._names_changed_at
        ):
            self._follow()

    def _look(self) -> None:
        if self._folder is None:
            return
        self._names_changed_at = _changed_at(self._folder)
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


def _key(request: list[bytes]) -> str:
    """Return the public key in a ZAP request; empty without keys."""
    mechanism, *credentials = request[5:]
    is_curve = mechanism == b"CURVE" and bool(credentials)
    return z85.encode(credentials[0]).decode() if is_curve else ""


def _missing(some: dict[str, Client], others: dict[str, Client]) -> list[str]:
    """Return the labels of the clients that are not among the others under the same key."""
    return sorted({client.label for key, client in some.items() if others.get(key) != client})


def _changed_at(folder: Path | None) -> int:
    """Return when a name in a folder last changed; 0 without a folder."""
    try:
        return folder.stat().st_mtime_ns if folder is not None else 0
    except OSError:
        return 0


def _stamps(folder: Path) -> Stamps:
    """Return times, sizes and inodes by file name: a change in one shows a change in the folder."""
    found: Stamps = {}
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return {}  # no client is allowed
    for name in names:
        if not name.endswith(".pub"):
            continue
        try:
            status = (folder / name).stat()
        except FileNotFoundError:
            continue  # removed since the listing
        except OSError as error:
            if error.errno in PASSING:
                raise
            found[name] = 0, 0, 0  # reading it names the error
            continue
        found[name] = status.st_mtime_ns, status.st_size, status.st_ino
    return found


def _read(folder: Path, names: Stamps) -> dict[str, Client]:
    """Return the allowed clients by key; log and skip a malformed file."""
    clients: dict[str, Client] = {}
    for name in sorted(names):
        try:
            key, client = allowed_client(folder / name)
        except ConfigurationError as error:
            cause = error.__cause__
            if isinstance(cause, OSError) and cause.errno in PASSING:
                raise cause from None
            log.warning("skipping a malformed key file: %s", error)
            continue
        clients[key] = client
    return clients
