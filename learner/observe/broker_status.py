"""The status of a broker, as it publishes it: what a reader takes of it, within bounds."""

from typing import Any

import msgspec

from farflung.common.process.errors import Refused
from farflung.common.process.text import printable
from farflung.common.protocol.messages import Telemetry
from farflung.common.protocol.wire import open_frame, read

UPSTREAMS, POLICIES, REASONS, NAME_LETTERS = 64, 256, 64, 80
LARGEST = 1 << 53
Number = float  # of whole ones too: a hostile one may be as large as it likes


class UpstreamStatus(msgspec.Struct, frozen=True):
    """One upstream: each message for it was passed, is queued, or was dropped under a reason."""

    address: str = ""
    policies: tuple[str, ...] = ()
    silence_s: Number = 0.0
    builds: Number = 0  # how often its sockets were made
    passed: Number = 0
    passed_bytes: Number = 0
    queued: Number = 0
    queued_bytes: Number = 0
    dropped: dict[str, Number] = {}


class BrokerStatus(msgspec.Struct, frozen=True):
    """A broker. An older one lacks fields; None: it does not tell."""

    broker: str
    seconds: Number = 0.0
    received: Number = 0  # messages
    refused: dict[str, Number] = {}
    feed_messages: Number = 0
    subscriptions: Number = 0
    actors: Number | None = None
    memory: Number = 0  # bytes
    upstreams: tuple[UpstreamStatus, ...] = ()


def broker_status(frame: bytes) -> tuple[int, BrokerStatus]:
    """Return the identity and the status in a broker's message; raise `Refused` for other bytes."""
    message = read(open_frame(frame))
    if not isinstance(message, Telemetry):
        raise Refused("kind", f"{type(message).__name__} is not expected here")
    try:
        found = msgspec.json.decode(message.document, type=BrokerStatus)
    except (ValueError, RecursionError) as error:
        raise Refused("malformed", f"this is not the status of a broker: {error}") from error
    plain = msgspec.to_builtins(found)
    plain["upstreams"] = plain["upstreams"][:UPSTREAMS]
    return message.learner_id, msgspec.convert(_bounded(plain), BrokerStatus)


def _bounded(plain: Any) -> Any:
    """Return plain data with texts that steer no terminal, and figures that every reader takes."""
    if isinstance(plain, str):
        return printable(plain, NAME_LETTERS)
    if isinstance(plain, dict):
        kept = list(plain.items())[:REASONS]
        return {printable(name, NAME_LETTERS): _bounded(value) for name, value in kept}
    if isinstance(plain, list | tuple):
        return [_bounded(value) for value in plain[:POLICIES]]
    if isinstance(plain, int | float):
        return min(max(plain, 0), LARGEST)
    return plain
