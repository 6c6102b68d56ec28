"""The one frame of the wire: a preamble, an envelope with readable names, a table, raw columns.

magic 2 · version 1 · kind 1 · envelope length 4 · table length 4 · total length 4 · CRC-32 of all
the rest 4 · envelope · table · columns at multiples of 64. docs/protocol.md is the specification.
"""

import struct
from collections.abc import Container, Mapping, Sequence
from enum import IntEnum
from itertools import chain
from typing import Any, NamedTuple

from zlib_ng.zlib_ng import crc32  # ten times as fast as zlib's: most of a large frame's cost

from farflung.common.data.fields import Natural
from farflung.common.data.layout import PADDING, aligned, paddings
from farflung.common.data.parcel import Place
from farflung.common.data.weights import Version
from farflung.common.process.errors import Refused
from farflung.common.protocol import packing
from farflung.common.protocol.messages import (
    Acknowledgement,
    Announcement,
    Beacon,
    Bye,
    Command,
    Hello,
    Numbered,
    Probe,
    Report,
    Spans,
    Telemetry,
    Trace,
)
from farflung.common.protocol.packing import from_flat, from_plain, to_plain

MAGIC, VERSION = b"\xfa\x5f", 1
KIND_AT = 3
PREAMBLE = struct.Struct("<2sBBIII")  # then the checksum
CHECKSUM = struct.Struct("<I")
HEAD = PREAMBLE.size + CHECKSUM.size


class Kind(IntEnum):
    """The kind of a message: experience below 16, feed from 16 on."""

    PARCEL = 1
    GRADIENTS = 2
    HELLO = 3
    REPORT = 4
    COMMAND = 5
    BYE = 6
    SPANS = 7
    ANNOUNCEMENT = 16
    WEIGHTS = 17
    BEACON = 18
    TELEMETRY = 19
    ACKNOWLEDGEMENT = 20
    PROBE = 21
    TRACE = 22


Message = (
    Hello
    | Report
    | Command
    | Bye
    | Spans
    | Announcement
    | Beacon
    | Telemetry
    | Acknowledgement
    | Probe
    | Trace
)
KINDS: dict[Kind, type[Message]] = {
    Kind.HELLO: Hello,
    Kind.REPORT: Report,
    Kind.COMMAND: Command,
    Kind.BYE: Bye,
    Kind.SPANS: Spans,
    Kind.ANNOUNCEMENT: Announcement,
    Kind.BEACON: Beacon,
    Kind.TELEMETRY: Telemetry,
    Kind.ACKNOWLEDGEMENT: Acknowledgement,
    Kind.PROBE: Probe,
    Kind.TRACE: Trace,
}
KIND_OF: dict[type[Message], Kind] = {message: kind for kind, message in KINDS.items()}

KIND_AS: dict[int, Kind] = {kind.value: kind for kind in Kind}  # faster than `Kind(number)`

FEED = 16  # kinds from here on
KNOWN = frozenset(Kind)
EXPERIENCE = frozenset(kind for kind in Kind if kind < FEED)
RELAYED = range(1, FEED)  # a relay also passes on experience that only a later release knows


class Limits(NamedTuple):
    """The bytes that each part of a frame may have at most."""

    envelope: int
    table: int  # 0: the kind has no columns
    frame: int


MAX_MESSAGE_BYTES = 64 << 20  # of experience; see `most_experience_bytes`
MAX_WORD_BYTES = 128 << 10  # of a message without columns
MAX_FEED_MESSAGE_BYTES = 1 << 30
BESIDE_TENSORS = 1 << 20  # bytes of a message beside its tensors
MAX_GRADIENTS_BYTES = MAX_FEED_MESSAGE_BYTES + BESIDE_TENSORS  # of the largest weights
LIMITS = {
    **dict.fromkeys(EXPERIENCE, Limits(64 << 10, 0, MAX_WORD_BYTES)),
    **dict.fromkeys(KNOWN - EXPERIENCE, Limits(4 << 20, 0, MAX_FEED_MESSAGE_BYTES)),
    Kind.PARCEL: Limits(64 << 10, 64 << 10, MAX_MESSAGE_BYTES),
    Kind.GRADIENTS: Limits(64 << 10, 4 << 20, MAX_GRADIENTS_BYTES),
    Kind.WEIGHTS: Limits(64 << 10, 4 << 20, MAX_FEED_MESSAGE_BYTES),
}
# Of a kind that a relay passes on without knowing it
UNKNOWN = Limits(64 << 10, 4 << 20, MAX_MESSAGE_BYTES)


def most_experience_bytes(weights_bytes: int) -> int:
    """Return the largest message that a learner takes: gradients are as large as its weights."""
    return max(MAX_MESSAGE_BYTES, weights_bytes + BESIDE_TENSORS)


class Opened(NamedTuple):
    """A frame with a correct checksum: its envelope is read, its table and columns are not."""

    kind: Kind
    envelope: dict[str, Any]
    table: bytes  # as packed: those of an actor's parcels are nearly always the same
    data: memoryview  # the columns


class Envelope(Numbered, frozen=True, forbid_unknown_fields=True):
    """The envelope of a parcel. Delivery needs the first fields and no more."""

    version: Version  # of the weights that acted
    schema: str  # of the spec
    round: Place | Natural = 0  # of the sync mode; 0 outside of it
    evaluation: bool = False  # results without rows


# ---- frames


def assemble(
    kind: Kind,
    envelope: Mapping[str, Any],
    columns: Sequence[bytes | memoryview] = (),
    table: bytes = b"",
) -> bytearray:
    """Return the frame of an envelope, a packed table and the bytes of columns."""
    head = packing.pack(envelope)
    end = HEAD + len(head) + len(table)
    start = aligned(end)
    gaps, length = paddings(tuple(map(len, columns)))
    total = start + length if columns else end
    parts: list[bytes | memoryview] = [
        PREAMBLE.pack(MAGIC, VERSION, kind, len(head), len(table), total),
        bytes(CHECKSUM.size),
        head,
        table,
        PADDING[: total - length - end],
        *chain.from_iterable(zip(gaps, columns, strict=True)),
    ]
    frame = bytearray().join(parts)  # one copy, into memory that was not cleared before
    CHECKSUM.pack_into(frame, PREAMBLE.size, _checksum(memoryview(frame)))
    return frame


def open_frame(frame: bytes | bytearray | memoryview, kinds: Container[int] = KNOWN) -> Opened:
    """Return the parts of a frame; raise `Refused` unless every byte is as it was sent.

    The envelope of a kind that is not expected is not read.
    """
    view = memoryview(frame)
    places = _preamble(view, kinds)
    if CHECKSUM.unpack_from(view, PREAMBLE.size)[0] != _checksum(view):
        raise Refused("checksum", "the bytes were changed on the way")
    return _opened(view, *places)


def open_intact(view: memoryview) -> Opened:
    """Return the parts of a frame that `intact` has checked before."""
    return _opened(view, *_preamble(view, KNOWN))


def peek(frame: bytes | bytearray | memoryview) -> tuple[str, str]:
    """Return the policy and the sender of an experience message: all that a relay reads."""
    view = memoryview(frame)
    _, envelope_end, _ = _preamble(view, RELAYED)
    envelope = packing.unpack_map(view[HEAD:envelope_end], "envelope")
    policy, actor = envelope.get("policy"), envelope.get("actor")
    if not isinstance(policy, str) or not isinstance(actor, str):
        raise Refused("malformed", "policy or actor is missing or not a text")
    return policy, actor


def _preamble(view: memoryview, kinds: Container[int]) -> tuple[int, int, int]:
    """Return the kind of a frame and where its envelope and its table end, all within limits."""
    if len(view) < HEAD:
        raise Refused("truncated", f"{len(view)} bytes")
    magic, version, kind, envelope, table, total = PREAMBLE.unpack_from(view)
    if magic != MAGIC:
        raise Refused("magic", "this is not a Farflung message")
    if version != VERSION:
        raise Refused(
            "protocol",
            f"version {version} of the protocol, and this side speaks {VERSION}: use the same "
            "release on both",
        )
    if kind not in kinds:
        raise Refused("kind", f"kind {_name(kind)} is not expected here")
    _require_sizes(kind, envelope, table, total)
    envelope_end, table_end = HEAD + envelope, HEAD + envelope + table
    if total != len(view) or table_end > total:
        raise Refused("truncated", f"{len(view)} of {total} bytes")
    return kind, envelope_end, table_end


def _require_sizes(kind: int, envelope: int, table: int, total: int) -> None:
    limits = LIMITS.get(kind, UNKNOWN)  # type: ignore[call-overload]  # a Kind is its number
    if envelope > limits.envelope:
        raise Refused("envelope size", f"an envelope of {envelope} bytes")
    if total > limits.frame:
        raise Refused("oversized", f"{total} bytes")
    if not limits.table and total > HEAD + envelope:
        raise Refused("columns", f"{_name(kind)} has none")
    if table > limits.table:
        raise Refused("table size", f"a table of {table} bytes")


def _name(kind: int) -> str:
    return Kind(kind).name if kind in KNOWN else str(kind)


def _opened(view: memoryview, kind: int, envelope_end: int, table_end: int) -> Opened:
    return Opened(
        KIND_AS[kind],
        packing.unpack_map(view[HEAD:envelope_end], "envelope"),
        bytes(view[envelope_end:table_end]),
        view[aligned(table_end) :],
    )


def intact(frame: memoryview) -> bool:
    """Return whether the bytes of a frame are those under its checksum."""
    return len(frame) >= HEAD and checksum(frame) == _checksum(frame)


def kind_of(frame: bytes | bytearray | memoryview) -> int:
    """Return the kind that a frame names, before it is checked; -1 if it is no frame of ours."""
    # By single bytes: each message is asked, and a slice takes longer than all the rest.
    if len(frame) <= KIND_AT or frame[0] != MAGIC[0] or frame[1] != MAGIC[1]:
        return -1
    return frame[KIND_AT]


def checksum(frame: bytes | bytearray | memoryview) -> int:
    """Return the checksum that a frame carries. It names these bytes."""
    return int(CHECKSUM.unpack_from(frame, PREAMBLE.size)[0])


def _checksum(frame: memoryview) -> int:
    return crc32(frame[HEAD:], crc32(frame[: PREAMBLE.size]))


def read_table(opened: Opened) -> Any:
    """Return the table of columns, as its sender made it."""
    return packing.unpack(opened.table, "columns")


# ---- messages without columns


def encode(message: Message) -> bytearray:
    """Return the frame of a message that is all envelope."""
    return assemble(KIND_OF[type(message)], to_plain(message))


def read(opened: Opened) -> Message:
    """Return the message that `encode` made."""
    if opened.kind not in KINDS:
        raise Refused("kind", f"{opened.kind.name} is not expected here")
    return from_plain(KINDS[opened.kind], opened.envelope)


# ---- envelopes


def read_envelope(opened: Opened) -> Envelope:
    """Return the sender of a parcel and its number."""
    if opened.kind is not Kind.PARCEL:
        raise Refused("kind", f"{opened.kind.name} is not expected here")
    return from_flat(Envelope, opened.envelope)
