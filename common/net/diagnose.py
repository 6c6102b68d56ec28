"""Diagnosis of a silent address: the cause and its cure, in a sentence.

Two questions need two mechanisms. A raw ZMTP greeting shows whether a learner listens and whether
it uses keys. The socket monitor shows whether the learner accepts our key. The monitor alone is
not enough: a tunnel that hangs up and a server with another key cause the same events
(CONNECTED, HANDSHAKE_FAILED_NO_DETAIL with EPIPE or ECONNRESET, DISCONNECTED), but the first is
worth waiting for and the second is final. Nor does it show why a connection failed.
"""

import logging
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass

import zmq

from farflung.common.net import handshake, sockets
from farflung.common.net.address import Address
from farflung.common.net.handshake import Outcome
from farflung.common.net.keys import ClientKeys
from farflung.common.process.errors import FarflungError, NoLearner, NotAllowed
from farflung.common.process.log import LASTING

log = logging.getLogger(__name__)

WORRY_S = 1.5  # of silence before a diagnosis: a healthy learner sends a beacon every second
DIAGNOSE_S = 2.0  # between two diagnoses
REPEAT_S = 30.0  # between two log lines with the same sentence
CONNECT_S = 1.0
HANDSHAKES = 3  # a server that closes connections of a crowd may close ours among them
SIGNATURE = b"\xff" + bytes(8) + b"\x7f"  # of ZMTP
MAJOR = b"\x03"  # after signature and version the peer sends its greeting with its mechanism
MUTE = b"?"  # stands for a greeting that does not come
GREETING, MECHANISM = 64, slice(12, 32)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a diagnosis.

    `final`: waiting does not help; by default because keys are wrong. `welcome`: the server would
    accept a connection.
    """

    text: str
    final: bool = False
    error: type[FarflungError] = NotAllowed
    welcome: bool = False


def diagnose(address: Address, keys: ClientKeys | None) -> Finding:
    """Dial both ports and return the finding, within a few seconds."""
    half, greeting = False, b""
    try:
        for port in (address.port, address.feed_port):
            greeting = _greeting(address.host, port)
            if not _is_zmtp(greeting):
                return _strange(address, port, greeting)
            half = True
    except socket.gaierror:
        return Finding(
            f"the name {address.host} does not resolve: "
            "is it spelt right, and known on this network?"
        )
    except OSError as error:
        return _closed(address, error.strerror or str(error), half)
    return _compare(address, keys, greeting[MECHANISM].rstrip(b"\0") == b"CURVE")


def _is_zmtp(greeting: bytes) -> bool:
    """Return whether the peer speaks ZMTP."""
    return (
        len(greeting) == GREETING
        and greeting[:1] == SIGNATURE[:1]
        and greeting[9:10] == SIGNATURE[9:]
    )


def _strange(address: Address, port: int, greeting: bytes) -> Finding:
    """Return the finding for a port that does not answer in ZMTP."""
    where = f"port {port} of {address.host}"
    if not greeting:
        return Finding(f"{where} hangs up: is the learner behind it not there yet?")
    if greeting == MUTE:
        return Finding(
            f"{where} accepts but sends nothing: is the port right, or was the learner stopped?"
        )
    return Finding(f"{where} is not a learner's: is the port right?", final=True, error=NoLearner)


def _closed(address: Address, reason: str, half: bool) -> Finding:
    """Return the finding for a closed port; `half`: the experience port is open."""
    if not half:
        return Finding(
            f"nothing listens at {address}, with its feed on port {address.feed_port} ({reason}): "
            "start a learner there, or name the address of one"
        )
    return Finding(
        f"{address} is open, but port {address.feed_port}, where its feed would be, is closed "
        f"({reason}): name the learner's port for experience, the lower of its two ports by "
        "default, or the feed's with --feed-port"
    )


def _compare(address: Address, keys: ClientKeys | None, guarded: bool) -> Finding:
    """Return the finding for a learner that answers: our keys beside those it requires."""
    if keys is None and not guarded:
        return Finding(f"{address} answers, but sends nothing yet", welcome=True)
    if keys is None:
        return Finding(
            f"{address} requires a key: copy one from its folder of keys, "
            "and name it with --keys FILE",
            final=True,
        )
    if not guarded:
        return Finding(
            f"{address} uses no keys, but this process does: start the learner with --keys FOLDER, "
            f"or leave out {keys.path} here",
            final=True,
        )
    outcome = Outcome.CLOSED
    with sockets.context() as context:
        for _ in range(HANDSHAKES):
            if outcome is Outcome.CLOSED:
                outcome = handshake.attempt(context, address, zmq.SUB, keys, CONNECT_S)
    return _attempted(address, keys, outcome)


def _attempted(address: Address, keys: ClientKeys, outcome: Outcome) -> Finding:
    """Return the finding for a handshake with our key."""
    label = keys.client.label
    return {
        Outcome.ACCEPTED: Finding(f"{address} accepts us, but sends nothing yet", welcome=True),
        Outcome.REFUSED: Finding(
            f"{address} does not allow the key in {keys.path}: the key was revoked, or belongs to "
            f"another folder of keys. On that machine, learner keys FOLDER --add {label} "
            "allows it or makes one to copy",
            final=True,
        ),
        Outcome.CLOSED: Finding(
            f"{address} is not the server that {keys.path} is for, or its keys have changed: "
            f"copy {label}.key from its folder of keys again",
            final=True,
        ),
        Outcome.NOTHING: Finding(f"{address} does not answer"),
    }[outcome]


def _greeting(host: str, port: int) -> bytes:
    """Return the first bytes that the peer sends."""
    with socket.create_connection((host, port), CONNECT_S) as connection:
        received, end = b"", time.monotonic() + CONNECT_S
        try:
            connection.sendall(SIGNATURE + MAJOR)
            while len(received) < GREETING and (left := end - time.monotonic()) > 0:
                connection.settimeout(left)
                if not (more := connection.recv(GREETING)):
                    break
                received += more
        except TimeoutError:
            return received or MUTE  # it accepts connections and stays silent
        except ConnectionError:
            return received  # it hung up
        return received


class Diagnosis:
    """Diagnoses a silent address in a thread of its own: names and connections take time."""

    def __init__(self, address: Address, keys: ClientKeys | None = None) -> None:
        self._address, self._keys = address, keys
        self._barred = False
        self._reported = ""
        self._diagnose_at = self._repeat_at = float("-inf")
        self._thread: threading.Thread | None = None
        self._findings: deque[Finding] = deque(maxlen=1)

    @property
    def busy(self) -> bool:
        """True while a diagnosis is under way."""
        return self._thread is not None and self._thread.is_alive()

    def look(self, silence_s: float, known: bool, now: float) -> bool:
        """Report the last finding and start the next diagnosis; call this regularly.

        Return True when the caller must make new sockets: the server refused us and would now
        accept us. Raise a final finding unless this process is `known` to the server. A known
        process waits, because its key may be allowed again.
        """
        if silence_s < WORRY_S:
            self._reported, self._barred = "", False
            return False
        if self._findings:
            return self._report(self._findings.popleft(), known, now)
        if now >= self._diagnose_at and not self.busy:
            self._diagnose_at = now + DIAGNOSE_S
            self._thread = threading.Thread(target=self._run, name="diagnosis", daemon=True)
            self._thread.start()
        return False

    def _run(self) -> None:
        try:
            finding = diagnose(self._address, self._keys)
        except Exception as error:  # the top of a thread: the process is worth more than the cause
            finding = Finding(f"cannot find out why {self._address} is silent: {error!r}")
        self._findings.append(finding)

    def _report(self, finding: Finding, known: bool, now: float) -> bool:
        if finding.welcome:
            barred, self._barred = self._barred, False
            return barred
        if finding.final and not known:
            raise finding.error(finding.text)
        self._barred |= finding.final  # libzmq never reconnects a socket that was refused
        if finding.text != self._reported or now >= self._repeat_at:
            self._reported, self._repeat_at = finding.text, now + REPEAT_S
            level = logging.WARNING if finding.final else logging.INFO
            log.log(
                level, "waiting for a learner at %s: %s", self._address, finding.text, extra=LASTING
            )
        return False
