"""The one message format: a preamble, a header with readable names, raw columns. Bytes are made and read here and in packing.py.

magic 2 · version 1 · kind 1 · header length 4 · total length 4 · CRC-32 of all the rest 4 · header · columns at 64-byte offsets
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from zlib_ng.zlib_ng import (
    crc32,  # as zlib's, and ten times as fast: it is most of what a large message costs
)

from farflung.common.data.layout import ALIGNMENT, layout
from farflung.common.data.spec import ACTOR, NAME, Tensor
from farflung.common.data.version import Version
from farflung.common.data.weights import Weights
from farflung.common.process.errors import Refused
from farflung.common.protocol import headers
from farflung.common.protocol.messages import Announcement, Beacon, Bye, Hello, Report, Telemetry
from farflung.common.protocol.plain import from_plain, to_plain

MAGIC, VERSION = b"\xfa\x5f", 1
PREAMBLE = struct.Struct("<2sBBII")  # then the checksum
CHECKSUM = struct.Struct("<I")
HEAD = PREAMBLE.size + CHECKSUM.size
PADDING = bytes(ALIGNMENT)  # at most, between two columns


class Kind(IntEnum):
    """What a message is; experience below 16, feed above."""

    PARCEL = 1
    GRADIENTS = 2
    HELLO = 3
    REPORT = 4
    COMMAND = 5
    BYE = 6
    ANNOUNCEMENT = 16
    WEIGHTS = 17
    BEACON = 18
    TELEMETRY = 19


Message = Hello | Report | Bye | Announcement | Beacon | Telemetry
KINDS: dict[Kind, type[Message]] = {
    Kind.HELLO: Hello,
    Kind.REPORT: Report,
    Kind.BYE: Bye,
    Kind.ANNOUNCEMENT: Announcement,
    Kind.BEACON: Beacon,
    Kind.TELEMETRY: Telemetry,
}
KIND_OF: dict[type[Message], Kind] = {message: kind for kind, message in KINDS.items()}

KNOWN = frozenset(Kind)
EXPERIENCE = frozenset(
    {Kind.PARCEL, Kind.GRADIENTS, Kind.HELLO, Kind.REPORT, Kind.COMMAND, Kind.BYE}
)
MAX_MESSAGE_BYTES = 64 << 20
MAX_HEADER_BYTES = 64 << 10
MAX_FEED_MESSAGE_BYTES = 1 << 30
MAX_FEED_HEADER_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Opened:
    """A message whose bytes are whole: its header is read, its columns are not."""

    kind: Kind
    header: dict[str, Any]
    data: memoryview
    table: bytes = b""  # of a parcel: the last entry of its header, as packed; those of an actor are nearly always the same


class Envelope(NamedTuple):
    """Who sent a parcel, and as which number: what delivery needs, and all that a relay reads."""

    run: str
    policy: str
    actor: str
    incarnation: int
    sequence: int
    base: int
    version: Version
    schema: str
    round: int = 0  # of the sync mode; 0 outside of it


ENVELOPE_TYPES = (str, str, str, int, int, int, Version, str, int)  # True is none of them


# ---- frames


def assemble(
    kind: Kind, header: dict[str, Any], columns: Sequence[bytes | memoryview], table: bytes = b""
) -> bytearray:
    """One frame of a header and column bytes. The header's last entry may come packed: a parcel's table of columns."""
    head = headers.pack(header, table)
    start = _aligned(HEAD + len(head))
    offsets, length = layout(map(len, columns))
    total = start + length if columns else HEAD + len(head)
    parts: list[bytes | memoryview] = [
        PREAMBLE.pack(MAGIC, VERSION, kind, len(head), total),
        bytes(CHECKSUM.size),
        head,
    ]
    end = HEAD + len(head)
    for offset, column in zip(offsets, columns, strict=True):
        parts += (PADDING[: start + offset - end], column)
        end = start + offset + len(column)
    frame = bytearray().join(parts)  # one copy, into memory that was not cleared before
    CHECKSUM.pack_into(frame, PREAMBLE.size, _checksum(memoryview(frame)))
    return frame


def open_frame(frame: bytes | bytearray | memoryview, kinds: frozenset[Kind] = KNOWN) -> Opened:
    """The frame's kind, header and data, if every byte is as it was sent; else `Refused`. Of kinds not expected no header is read."""
    view = memoryview(frame)
    kind, header_end = _preamble(view)
    if kind not in kinds:
        raise Refused("kind", f"{kind.name} is not expected here")
    if not intact(view):
        raise Refused("checksum", "the bytes were changed on the way")
    return _opened(view, kind, header_end)


def open_intact(view: memoryview) -> Opened:
    """The same of a frame that was found intact before, whose bytes need not be gone over again."""
    return _opened(view, *_preamble(view))


def peek(frame: bytes | bytearray | memoryview) -> tuple[Kind, str, str]:
    """The kind of an experience message, the policy that it is for and the actor that it is from: all that a relay reads."""
    view = memoryview(frame)
    kind, header_end = _preamble(view)
    if kind not in EXPERIENCE:
        raise Refused("kind", f"{kind.name} is not for a learner")
    header = headers.unpack(view[HEAD:header_end])
    (policy,), actor = headers.texts(header, "policy"), header.get("actor")
    return (
        kind,
        policy,
        actor if isinstance(actor, str) else "",
    )  # nobody's name: where names count, it is refused


def _preamble(view: memoryview) -> tuple[Kind, int]:
    """The kind of a frame and where its header ends, if its lengths are right and within the limits."""
    if len(view) < HEAD:
        raise Refused("truncated", f"{len(view)} bytes")
    magic, version, kind, header_length, total = PREAMBLE.unpack_from(view)
    if magic != MAGIC:
        raise Refused("magic", "this is no Farflung message")
    if version != VERSION:
        raise Refused(
            "protocol",
            f"version {version} of the protocol, and this side speaks {VERSION}: use the same release on both",
        )
    if kind not in KNOWN:
        raise Refused("kind", f"kind {kind} is unknown")
    experience = kind in EXPERIENCE
    if header_length > (MAX_HEADER_BYTES if experience else MAX_FEED_HEADER_BYTES):
        raise Refused("header size", f"a header of {header_length} bytes")
    if total > (MAX_MESSAGE_BYTES if experience else MAX_FEED_MESSAGE_BYTES):
        raise Refused("oversized", f"{total} bytes")
    if total != len(view) or HEAD + header_length > total:
        raise Refused("truncated", f"{len(view)} of {total} bytes")
    return Kind(kind), HEAD + header_length


def _opened(view: memoryview, kind: Kind, header_end: int) -> Opened:
    header, data = view[HEAD:header_end], view[min(len(view), _aligned(header_end)) :]
    fields, table = (
        headers.split(bytes(header)) if kind is Kind.PARCEL else (headers.unpack(header), b"")
    )
    return Opened(kind, fields, data, table)


def intact(frame: memoryview) -> bool:
    """Whether the bytes of a frame are those under its checksum."""
    return len(frame) >= HEAD and checksum(frame) == _checksum(frame)


def checksum(frame: bytes | bytearray | memoryview) -> int:
    """The checksum that a frame carries: it names these bytes."""
    return int(CHECKSUM.unpack_from(frame, PREAMBLE.size)[0])


def _checksum(frame: memoryview) -> int:
    return crc32(frame[HEAD:], crc32(frame[: PREAMBLE.size]))


def _aligned(offset: int) -> int:
    return offset + -offset % ALIGNMENT


def read_table(opened: Opened) -> Any:
    """A parcel's table of columns, whatever its sender made of it."""
    return headers.read(opened.table)


# ---- messages without columns


def encode(message: Message) -> bytearray:
    """The frame of a message that is all header."""
    return assemble(KIND_OF[type(message)], to_plain(message), ())


def read(opened: Opened) -> Message:
    """The message that `encode` made."""
    if opened.kind not in KINDS:
        raise Refused("kind", f"{opened.kind.name} is not expected here")
    return from_plain(KINDS[opened.kind], opened.header)


# ---- envelopes


def read_envelope(opened: Opened) -> Envelope:
    """Who sent it, and as which number."""
    if opened.kind is not Kind.PARCEL:
        raise Refused("kind", f"{opened.kind.name} is not expected here")
    fields = opened.header | {"version": read_version(opened.header)}
    envelope = Envelope._make(map(fields.get, Envelope._fields))
    if (
        tuple(map(type, envelope)) != ENVELOPE_TYPES
        or min(envelope.incarnation, envelope.round) < 0
    ):
        raise Refused(
            "header",
            f"one of {', '.join(Envelope._fields)} is missing, of another type, or a negative number",
        )
    if not (
        NAME.fullmatch(envelope.run)
        and NAME.fullmatch(envelope.policy)
        and ACTOR.fullmatch(envelope.actor)
    ):
        raise Refused("header", "a name has characters that names do not have")
    if not 1 <= envelope.base <= envelope.sequence:
        raise Refused("header", f"number {envelope.sequence} with base {envelope.base}")
    return envelope


def read_version(header: dict[str, Any]) -> Version:
    """Return the version that a header names."""
    value = header.get("version")
    if (
        not isinstance(value, list)
        or len(value) != 2
        or type(value[0]) is not int
        or type(value[1]) is not int
        or min(value) < 0
    ):
        raise Refused("header", "version is missing or not an epoch and a number")
    return Version(value[0], value[1])


# ---- weights


def encode_weights(weights: Weights) -> bytearray:
    """The frame of a version: every tensor is a column under its own name."""
    offsets, _ = layout(tensor.size for tensor in weights.tensors)
    header = {
        "run": weights.run,
        "policy": weights.policy,
        "version": weights.version,
        "steps": weights.steps,
        "updates": weights.updates,
        "columns": [
            [t.name, t.dtype, t.shape, offset, t.size, ""]
            for t, offset in zip(weights.tensors, offsets, strict=True)
        ],
    }
    return assemble(Kind.WEIGHTS, header, (memoryview(weights.block),))


def read_weights(opened: Opened, tensors: tuple[Tensor, ...]) -> Weights:
    """The version, if its columns are exactly the tensors of the acting graph. The block is the received bytes."""
    if opened.kind is not Kind.WEIGHTS:
        raise Refused("kind", f"{opened.kind.name} is not expected here")
    run, policy = headers.texts(opened.header, "run", "policy")
    version = read_version(opened.header)
    steps, updates = headers.numbers(opened.header, "steps", "updates")
    offsets, total = layout(tensor.size for tensor in tensors)
    expected = [
        [t.name, t.dtype, list(t.shape), offset, t.size, ""]
        for t, offset in zip(tensors, offsets, strict=True)
    ]
    if opened.header.get("columns") != expected or len(opened.data) != total:
        raise Refused("columns", "the weights are not those of the acting graph")
    return Weights(run, policy, version, steps, updates, tensors, opened.data)
