"""Records: the bytes of a segment, written and read in this module and nowhere else.

A segment is a header of 64 bytes (magic 8, number 8, salt 4, CRC-32 of these 4, zeros), then
records. A record is salt 4, kind 1, link 3, length 4, CRC-32 4, payload, and zeros up to the next
multiple of 8. Each segment draws its own salt, so nothing that an actor sends can pass for a
record. Zeros follow the last record, because the file is reserved ahead.

A link is the first 3 bytes of the checksum of the record before it, also across segments. A
checksum covers its record's link, so each link covers all records before it and their order. A
segment of release 0.1.0 has zeros in its links' place, and another magic.
"""

import secrets
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from farflung.common.protocol import wire

MAGIC = b"FARFLNG\x02"
UNLINKED_MAGIC = b"FARFLNG\x01"  # of release 0.1.0
HEADER = struct.Struct("<8sQ4s")
CHECKSUM = struct.Struct("<I")
HEADER_BYTES = 64
HEAD = struct.Struct("<4sB3sI")  # then the checksum
HEAD_BYTES = HEAD.size + CHECKSUM.size
NO_LINK = bytes(3)  # of the first record of a journal
ALIGNMENT = 8
COVERED = wire.HEAD  # bytes of a message; they include a checksum of the rest

Payload = bytes | bytearray | memoryview


class Kind(IntEnum):
    """The kinds of records."""

    TOTALS = 1  # of all segments before this one, so that they may be removed
    START = 2  # a learner started
    MESSAGE = 3  # a parcel as received
    REFUSAL = 4  # a sequence number that was refused
    MARKER = 5  # a version was published
    JOINED = 6  # an actor has a place in the rounds


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a journal: the end of a record."""

    segment: int
    offset: int
    digest: int = field(default=0, compare=False)  # of the segment's messages so far, if known

    def __str__(self) -> str:
        return f"{self.segment}:{self.offset}"


BEGINNING = Position(0, 0)  # of every journal


@dataclass(frozen=True, slots=True)
class Record:
    """A whole record, and its place in its segment."""

    kind: Kind
    payload: memoryview
    start: int
    end: int
    follows: bytes | None = None  # the link to the record before it; None: its release wrote none
    link: bytes = NO_LINK  # to this record


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no record."""

    start: int
    end: int
    torn: bool = False  # no good record follows: a write that never ended


def new_salt() -> bytes:
    """Draw four random bytes. None is zero, since zeros mark the end of a segment."""
    return bytes(1 + secrets.randbelow(255) for _ in range(4))


def header(number: int, salt: bytes, magic: bytes = MAGIC) -> bytes:
    """Return the first bytes of a segment."""
    known = HEADER.pack(magic, number, salt)
    return (known + CHECKSUM.pack(zlib.crc32(known))).ljust(HEADER_BYTES, b"\0")


def size(length: int) -> int:
    """Return the length in bytes of a record with a payload of this length."""
    return HEAD_BYTES + length + -(HEAD_BYTES + length) % ALIGNMENT


def encode(
    salt: bytes, kind: Kind, payload: Payload, follows: bytes
) -> tuple[bytes, Payload, Payload]:
    """Return a record in pieces, to be written in order. A large message is not copied."""
    head = HEAD.pack(salt, kind, follows, len(payload))
    checksum = CHECKSUM.pack(_checksum(head, kind, memoryview(payload)))
    return head + checksum, payload, bytes(-(HEAD_BYTES + len(payload)) % ALIGNMENT)


def link_to(head: bytes) -> bytes:
    """Return the link to a record with this head, the first of its pieces."""
    return head[HEAD.size : HEAD.size + len(NO_LINK)]


def chained(digest: int, message: Payload) -> int:
    """Extend a checksum over the checksums of messages by one message.

    Other messages, or the same ones in another order, have another digest.
    """
    return zlib.crc32(memoryview(message)[wire.PREAMBLE.size : wire.HEAD], digest)


def scan(number: int, data: memoryview) -> Iterator[Record | Damage]:
    """Yield the records of a segment in order, and the damage between and after them."""
    salt, position = _salt(number, data), HEADER_BYTES
    if not salt:
        if data.nbytes and any(data[:HEADER_BYTES]):
            yield Damage(0, len(data), torn=True)
        return
    if not _is_header(number, salt, data):
        yield Damage(0, HEADER_BYTES)
    linked = data[: len(MAGIC)] == MAGIC
    while True:
        record = _read(salt, data, position, linked=linked)
        if record is None:
            record = _next(salt, data, position, linked=linked)
            if record is None:
                break
            yield Damage(position, record.start)
        yield record
        position = record.end
    if not blank(data[position:]):
        yield Damage(position, len(data), torn=True)


def payload_at(data: memoryview, start: int) -> memoryview:
    """Return the payload of a record that `scan` found at this place of the segment before."""
    _, _, _, length = HEAD.unpack_from(data, start)
    return data[start + HEAD_BYTES : start + HEAD_BYTES + length]


def blank(data: memoryview) -> bool:
    """Return whether all bytes are zero, like space that was reserved and never written."""
    return not np.frombuffer(data, np.uint8).max(initial=0)


def _is_header(number: int, salt: bytes, data: memoryview) -> bool:
    length = HEADER.size + CHECKSUM.size
    known = (header(number, salt, magic)[:length] for magic in (MAGIC, UNLINKED_MAGIC))
    return any(data[:length] == one for one in known)


def _salt(number: int, data: memoryview) -> bytes:
    """Return the segment's salt: from its header, else from its first record, else b""."""
    if len(data) < HEADER_BYTES:
        return b""
    _, _, salt = HEADER.unpack_from(data)
    if _is_header(number, salt, data):
        return bytes(salt)
    first = bytes(data[HEADER_BYTES : HEADER_BYTES + 4])
    found = len(first) == 4 and all(first) and _read(first, data, HEADER_BYTES, linked=False)
    return first if found else b""


def _read(salt: bytes, data: memoryview, start: int, *, linked: bool) -> Record | None:
    """Return the record at a place, if there is a whole one."""
    if start + HEAD_BYTES > len(data) or data[start : start + 4] != salt:
        return None
    _, kind, follows, length = HEAD.unpack_from(data, start)
    payload = data[start + HEAD_BYTES : start + HEAD_BYTES + length]
    if len(payload) != length or kind not in Kind.__members__.values():
        return None
    (claimed,) = CHECKSUM.unpack_from(data, start + HEAD.size)
    if claimed != _checksum(data[start : start + HEAD.size], kind, payload):
        return None
    if kind == Kind.MESSAGE and not wire.intact(payload):
        return None
    end, link = min(start + size(length), len(data)), CHECKSUM.pack(claimed)[: len(NO_LINK)]
    return Record(Kind(kind), payload, start, end, follows if linked else None, link)


def _next(salt: bytes, data: memoryview, position: int, *, linked: bool) -> Record | None:
    """Return the first whole record after a place."""
    if blank(data[position:]):
        return None
    rest = bytes(data)
    while (position := rest.find(salt, position + 1)) >= 0:
        if position % ALIGNMENT == 0 and (found := _read(salt, data, position, linked=linked)):
            return found
    return None


def _checksum(head: bytes | memoryview, kind: int, payload: memoryview) -> int:
    return zlib.crc32(payload[:COVERED] if kind == Kind.MESSAGE else payload, zlib.crc32(head))
