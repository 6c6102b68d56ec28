"""Why an address says nothing: found out beside everything else, and said in a sentence, with its cure."""

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

log = logging.getLogger(__name__)

WORRY_S = 1.5  # of silence, before anybody asks why: who is well speaks every second
ASK_S = 2.0  # between two questions
SAY_S = 30.0  # between two equal sentences
CONNECT_S = 1.0
SIGNATURE = (
    b"\xff" + bytes(8) + b"\x7f"
)  # of ZMTP; with the version after it, the other side says by which mechanism it knows its peers
MAJOR = b"\x03"
MUTE = b"?"  # instead of a greeting that does not come
GREETING, MECHANISM = 64, slice(12, 32)


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found. `final`: waiting cures nothing, by default since somebody's keys are wrong. `welcome`: we would be let in."""

    text: str
    final: bool = False
    error: type[FarflungError] = NotAllowed
    welcome: bool = False


def diagnose(address: Address, keys: ClientKeys | None) -> Finding:
    """Dial both ports and see, within a few seconds. An address that was not there a moment ago may be now."""
    half, greeting = False, b""
    try:
        for port in (address.port, address.feed_port):
            greeting = _greeting(address.host, port)
            if not _is_ours(greeting):
                return _strange(address, port, greeting)
            half = True
    except socket.gaierror:
        return Finding(
            f"the name {address.host} does not resolve: is it spelt right, and known on this network?"
        )
    except OSError as error:
        return _closed(address, error.strerror or str(error), half)
    return _compare(address, keys, greeting[MECHANISM].rstrip(b"\0") == b"CURVE")


def _is_ours(greeting: bytes) -> bool:
    """Whether somebody speaks ZMTP."""
    return (
        len(greeting) == GREETING
        and greeting[:1] == SIGNATURE[:1]
        and greeting[9:10] == SIGNATURE[9:]
    )


def _strange(address: Address, port: int, greeting: bytes) -> Finding:
    """Whoever listens on a port does not speak as ours do."""
    where = f"listens on port {port} of {address.host}"
    if not greeting:
        return Finding(f"whatever {where} hangs up: is the learner behind it not there yet?")
    if greeting == MUTE:
        return Finding(f"what {where} says nothing: is the port right, or was the learner stopped?")
    return Finding(f"what {where} is no learner: is the port right?", final=True, error=NoLearner)


def _closed(address: Address, reason: str, half: bool) -> Finding:
    """Nobody listens on one port; `half`: on the first one somebody does."""
    if not half:
        return Finding(
            f"nobody listens at {address}, with its feed on port {address.feed_port} ({reason}): start a learner there, or name where it is"
        )
    return Finding(
        f"somebody listens at {address}, but nobody on port {address.feed_port}, where its feed would be ({reason}): "
        "give the port for experience, which is the lower one unless the learner says otherwise, or name the feed's with --feed-port"
    )


def _compare(address: Address, keys: ClientKeys | None, guarded: bool) -> Finding:
    """What we have against what the other side wants."""
    if keys is None and not guarded:
        return Finding(f"{address} answers, but says nothing yet", welcome=True)
    if keys is None:
        return Finding(
            f"{address} lets in only who has a key: copy one from its folder of keys, and name it with --keys FILE",
            final=True,
        )
    if not guarded:
        return Finding(
            f"{address} has no keys, and we have: start it with --keys FOLDER, or leave out {keys.path} here",
            final=True,
        )
    with sockets.context() as context:
        outcome = handshake.attempt(context, address, zmq.SUB, keys, CONNECT_S)
    label = keys.client.label
    return {
        Outcome.ACCEPTED: Finding(f"{address} lets us in, but says nothing yet", welcome=True),
        Outcome.REFUSED: Finding(
            f"{address} does not allow the key in {keys.path}: it was revoked, or is of another folder of keys. "
            f"There, learner keys FOLDER --add {label} allows it or makes one to copy",
            final=True,
        ),
        Outcome.CLOSED: Finding(
            f"{address} is not the server that {keys.path} is for, or has other keys now: copy {label}.key from its folder of keys again",
            final=True,
        ),
        Outcome.NOTHING: Finding(f"{address} does not answer"),
    }[outcome]


def _greeting(host: str, port: int) -> bytes:
    """What the other side begins with."""
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
            return received or MUTE  # it listens, and has no greeting
        except ConnectionError:
            return received  # it hung up
        return received


class Diagnosis:
    """Asks why an address is silent, in threads of its own since names and connections take their time, and says what there is to say."""

    def __init__(self, address: Address, keys: ClientKeys | None = None) -> None:
        self._address, self._keys = address, keys
        self._barred = False
        self._said = ""
        self._ask_at = self._say_at = float("-inf")
        self._asking: threading.Thread | None = None
        self._findings: deque[Finding] = deque(maxlen=1)

    def look(self, silence_s: float, known: bool, now: float) -> bool:
        """To be called now and then. True: the sockets are to be made anew, since we were turned away and would now be let in.

        Raises where keys are wrong or there is no learner from the beginning; somebody who is `known` waits, and is let in again some day.
        """
        if silence_s < WORRY_S:
            self._said, self._barred = "", False
            return False
        if self._findings:
            return self._heed(self._findings.popleft(), known, now)
        if now >= self._ask_at and (self._asking is None or not self._asking.is_alive()):
            self._ask_at = now + ASK_S
            self._asking = threading.Thread(target=self._ask, name="silence", daemon=True)
            self._asking.start()
        return False

    def _ask(self) -> None:
        try:
            self._findings.append(diagnose(self._address, self._keys))
        except (
            Exception
        ) as error:  # the top of a thread; what it would have told is worth less than the process
            self._findings.append(
                Finding(f"why {self._address} is silent cannot be found out: {error!r}")
            )

    def _heed(self, finding: Finding, known: bool, now: float) -> bool:
        if finding.welcome:
            barred, self._barred = self._barred, False
            return barred
        if finding.final and not known:
            raise finding.error(finding.text)
        self._barred |= finding.final  # a socket that was turned away never tries again
        if finding.text != self._said or now >= self._say_at:
            self._said, self._say_at = finding.text, now + SAY_S
            log.log(
                logging.WARNING if finding.final else logging.INFO,
                "waiting for a learner at %s: %s",
                self._address,
                finding.text,
            )
        return False
