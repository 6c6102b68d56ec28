"""Who is let in: libzmq asks about each key that it has proved, and the folder of allowed clients has the answer (ZAP, RFC 27)."""

import logging
import threading
import time
from pathlib import Path

import zmq
from zmq.utils import z85

from farflung.common.net import handshake, sockets
from farflung.common.net.address import Address
from farflung.common.net.handshake import Outcome
from farflung.common.net.keys import ANYBODY, Client, ClientKeys, ServerKeys, allowed_client
from farflung.common.net.sockets import Context
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.log import once_every

log = logging.getLogger(__name__)

ENDPOINT = (
    "inproc://zeromq.zap.01"  # where libzmq asks, in the context of the socket that was dialled
)
POLL_MS = 100
LOOK_S = 0.5
PROVE_S = 5.0

Seen = dict[str, tuple[int, int, int]]


class Authenticator:
    """Answers in a thread of its own, and follows the folder of allowed clients. Where its thread has ended, nobody comes in any more."""

    def __init__(self, context: Context, keys: ServerKeys) -> None:
        self.clients: dict[str, Client] = {}  # by public key; replaced as a whole
        self.revocations = 0  # rises whenever somebody who was allowed no longer is
        self._folder = keys.allowed
        self._stranger = ""  # that we are ourselves, to see whether it is refused
        self._seen: Seen = {}
        self._looked_at = 0.0
        self._failure: BaseException | None = None
        self._closing = threading.Event()
        self._look()
        self._socket = context.socket(zmq.REP)
        self._socket.set(zmq.LINGER, 0)
        self._socket.bind(ENDPOINT)
        self._thread = threading.Thread(target=self._run, name="doorkeeper", daemon=True)
        self._thread.start()

    def sender(self, frame: zmq.Frame) -> Client | None:
        """Who sent what was received, by the key of the connection that it came over; None if that key is allowed no more."""
        try:
            return self.clients.get(str(frame.get("User-Id")))
        except zmq.ZMQError:
            return None  # nobody sent it: libzmq itself says that a subscriber has gone

    def check(self) -> None:
        """Raise what ended the thread, if anything did."""
        if self._failure is not None:
            raise RuntimeError("the doorkeeper ended") from self._failure

    def prove(self, address: Address, keys: ServerKeys) -> None:
        """Dial a server as a stranger would, and raise unless both of its ports refuse that."""
        public, secret = zmq.curve_keypair()
        self._stranger = public.decode()
        stranger = ClientKeys(Path("-"), ANYBODY, public, secret, keys.public)
        with sockets.context() as context:
            for kind, port in ((zmq.PUSH, address.port), (zmq.SUB, address.feed_port)):
                outcome = handshake.attempt(
                    context, address.seen_from_here, kind, stranger, PROVE_S
                )
                if outcome is not Outcome.REFUSED:
                    raise ConfigurationError(
                        f"a key that nobody knows was not refused on port {port} ({outcome.value}): not opening it"
                    )

    def close(self) -> None:
        """Let nobody in any more."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                if self._socket.poll(POLL_MS):
                    self._socket.send_multipart(self._answer(self._socket.recv_multipart()))
                if time.monotonic() - self._looked_at >= LOOK_S:
                    self._look()
        except (
            BaseException
        ) as error:  # the top of a thread: the loop that listens hears of it and ends
            log.exception("the doorkeeper ended")
            self._failure = error
        finally:
            self._socket.unbind(
                ENDPOINT
            )  # at once: closing alone lets go of the name a moment later, and the next one here needs it
            self._socket.close()

    def _answer(self, question: list[bytes]) -> list[bytes]:
        """The key itself becomes the user id of the connection, so that another key under the same label is another one."""
        version, request, _domain, _address, _identity, mechanism, *proofs = question
        key = z85.encode(proofs[0]).decode() if mechanism == b"CURVE" and proofs else ""
        if key and key not in self.clients:
            self._look()  # it may have been allowed a moment ago
        if key in self.clients:
            return [version, request, b"200", b"", key.encode(), b""]
        if key != self._stranger:
            log.warning("a key that is not allowed was turned away: %s", key, extra=once_every(10))
        return [version, request, b"400", b"not allowed", b"", b""]

    def _look(self) -> None:
        """Follow the folder, where anything in it has changed."""
        self._looked_at = time.monotonic()
        seen = _state(self._folder)
        if seen == self._seen:
            return
        before, self.clients, self._seen = self.clients, _read(self._folder, seen), seen
        gone = sorted(
            {client.label for key, client in before.items() if self.clients.get(key) != client}
        )
        new = sorted(
            {client.label for key, client in self.clients.items() if before.get(key) != client}
        )
        if new:
            log.info("allowed: %s", ", ".join(new))
        if gone:
            log.warning("revoked: %s", ", ".join(gone))
            self.revocations += 1


def _state(folder: Path) -> Seen:
    """What tells whether anything changed."""
    found: Seen = {}
    for path in folder.glob("*.pub"):
        try:
            status = path.stat()
        except OSError:
            continue  # it went meanwhile
        found[path.name] = status.st_mtime_ns, status.st_size, status.st_ino
    return found


def _read(folder: Path, names: Seen) -> dict[str, Client]:
    """Everybody who is allowed; a file that makes no sense allows nobody, and is named."""
    clients: dict[str, Client] = {}
    for name in sorted(names):
        try:
            key, client = allowed_client(folder / name)
        except ConfigurationError as error:
            log.warning("nobody is let in by it: %s", error)
            continue
        clients[key] = client
    return clients
