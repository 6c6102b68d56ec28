"""A segment of the journal as bytes: a header, then records. They are made and read here, and nowhere else.

Header, 64 bytes: magic 8 · number 8 · salt 4 · CRC-32 of these 4 · zeros. Record: salt 4 · kind 1 · zeros 3 · length 4 · CRC-32 4 ·
payload · zeros to the next multiple of 8. Every segment draws its own salt, so nothing that an actor sends can pass for a record. What
follows the last record is zero: the file is reserved ahead.
"""

import secrets
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from farflung.common.protocol import wire

MAGIC = b"FARFLNG\x01"
HEADER = struct.Struct("<8sQ4s")
CHECKSUM = struct.Struct("<I")
HEADER_BYTES = 64
HEAD = struct.Struct("<4sBxxxI")  # then the checksum
HEAD_BYTES = HEAD.size + CHECKSUM.size
ALIGNMENT = 8
COVERED = (
    wire.HEAD
)  # of a message: the rest is under the message's own checksum, which is among these bytes

Payload = bytes | bytearray | memoryview


class Kind(IntEnum):
    """What a record is."""

    TABLE = 1  # what came before this segment, so that earlier ones may go
    START = 2  # a learner's life begins
    MESSAGE = 3  # a parcel as received
    REFUSAL = 4  # a number that was not taken
    MARKER = 5  # a version was published


@dataclass(frozen=True, slots=True)
class Record:
    """A record that is whole, and where it lies in its segment."""

    kind: Kind
    payload: memoryview
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no record although they lie before good ones, or where the header should be."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Torn:
    """Bytes behind the last good record that are no record: a write that never ended."""

    start: int
    end: int


def new_salt() -> bytes:
    """Four random bytes, none of them zero: zeros are the end of a segment."""
    return bytes(1 + secrets.randbelow(255) for _ in range(4))


def header(number: int, salt: bytes) -> bytes:
    """The first bytes of a segment."""
    known = HEADER.pack(MAGIC, number, salt)
    return (known + CHECKSUM.pack(zlib.crc32(known))).ljust(HEADER_BYTES, b"\0")


def size(length: int) -> int:
    """How many bytes a record with so long a payload takes."""
    return _aligned(HEAD_BYTES + length)


def encode(salt: bytes, kind: Kind, payload: Payload) -> list[Payload]:
    """A record, as pieces to be written one after the other: a large message is not copied."""
    head = HEAD.pack(salt, kind, len(payload))
    return [
        head + CHECKSUM.pack(_checksum(head, kind, memoryview(payload))),
        payload,
        bytes(-len(payload) % ALIGNMENT),
    ]


def chained(digest: int, message: Payload) -> int:
    """A checksum over the checksums of messages in order, with one more: it tells other messages, and another order."""
    return zlib.crc32(memoryview(message)[wire.PREAMBLE.size : wire.HEAD], digest)


def scan(number: int, data: memoryview) -> Iterator[Record | Damage | Torn]:
    """Everything in a segment in order: its records, what is damaged between them, and what was torn at the end."""
    salt, position = _salt(number, data), HEADER_BYTES
    if not salt:
        if data.nbytes and any(data[:HEADER_BYTES]):
            yield Torn(0, len(data))
        return
    if data[: HEADER.size + CHECKSUM.size] != header(number, salt)[: HEADER.size + CHECKSUM.size]:
        yield Damage(0, HEADER_BYTES)
    while (record := _read(salt, data, position)) is not None or (
        further := _next(salt, data, position)
    ) is not None:
        if record is None:
            assert further is not None
            yield Damage(position, further.start)
            record = further
        yield record
        position = record.end
    if not blank(data[position:]):
        yield Torn(position, len(data))


def payload(data: memoryview, start: int) -> memoryview:
    """What a record says that was found whole at this place of a segment before."""
    _, _, length = HEAD.unpack_from(data, start)
    return data[start + HEAD_BYTES : start + HEAD_BYTES + length]


def blank(data: memoryview) -> bool:
    """Whether there are only zeros, as in what was reserved and never written."""
    return not np.frombuffer(data, np.uint8).max(initial=0)


def _salt(number: int, data: memoryview) -> bytes:
    """The segment's salt, from its header, else from its first record if that is whole; empty if neither is."""
    if len(data) < HEADER_BYTES:
        return b""
    _, _, salt = HEADER.unpack_from(data)
    if data[: HEADER.size + CHECKSUM.size] == header(number, salt)[: HEADER.size + CHECKSUM.size]:
        return bytes(salt)
    candidate = bytes(data[HEADER_BYTES : HEADER_BYTES + 4])
    return (
        candidate
        if len(candidate) == 4 and all(candidate) and _read(candidate, data, HEADER_BYTES)
        else b""
    )


def _read(salt: bytes, data: memoryview, start: int) -> Record | None:
    """The record at a place, if there is a whole one."""
    if start + HEAD_BYTES > len(data) or data[start : start + 4] != salt:
        return None
    _, kind, length = HEAD.unpack_from(data, start)
    payload = data[start + HEAD_BYTES : start + HEAD_BYTES + length]
    if len(payload) != length or kind not in Kind.__members__.values():
        return None
    (claimed,) = CHECKSUM.unpack_from(data, start + HEAD.size)
    if claimed != _checksum(data[start : start + HEAD.size], kind, payload):
        return None
    if kind == Kind.MESSAGE and not wire.intact(payload):
        return None
    return Record(Kind(kind), payload, start, min(start + size(length), len(data)))


def _next(salt: bytes, data: memoryview, position: int) -> Record | None:
    """The first whole record further on."""
    if blank(data[position:]):
        return None
    rest = bytes(data)
    while (position := rest.find(salt, position + 1)) >= 0:
        if position % ALIGNMENT == 0 and (record := _read(salt, data, position)) is not None:
            return record
    return None


def _checksum(head: bytes | memoryview, kind: int, payload: memoryview) -> int:
    return zlib.crc32(payload[:COVERED] if kind == Kind.MESSAGE else payload, zlib.crc32(head))


def _aligned(offset: int) -> int:
    return offset + -offset % ALIGNMENT
