"""Inputs of a fuzzer that get past lengths and checksums, and changes that keep their structure."""

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import msgpack

from farflung.common.data.layout import ALIGNMENT
from farflung.common.protocol import wire
from farflung.learner.storage.journal import record as form

SALT = b"salt"
RAW = 0xFF  # in place of a kind: what follows is taken as it is

NASTY: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        7,
        63,
        64,
        65,
        255,
        256,
        4096,
        1 << 16,
        1 << 26,
        (1 << 31) - 1,
        1 << 31,
        1 << 32,
        1 << 40,
    ),
    *(
        (1 << 63) - 1,
        1 << 63,
        (1 << 64) - 1,
        -(1 << 63),
        0.0,
        -0.0,
        0.5,
        2.0,
        1e308,
        -1e308,
        float("nan"),
        float("inf"),
        float("-inf"),
    ),
    *(
        "",
        "x",
        "default",
        "run-1",
        "box-1",
        "../x",
        "a" * 65,
        "\0",
        "ü\udc80".encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
    ),
    *(
        "float32",
        "float64",
        "uint8",
        "int64",
        "bool",
        "object",
        "O",
        "U4",
        ">f4",
        "lz4",
        "box",
        "discrete",
        "step",
        "observation",
    ),
    *(
        [],
        {},
        [[]],
        {"": {}},
        [0],
        [0, 0],
        [1 << 62, 1 << 62],
        [1] * 33,
        b"",
        b"\x80",
        [None],
        {"a": 1},
    ),
)


@dataclass(frozen=True, slots=True)
class Structure:
    """A form that inputs have: how to read one into plain values, and how to write them."""

    load: Callable[[bytes], Any]
    dump: Callable[[Any], bytes]


def _load_message(data: bytes) -> Any:
    kind, columns, table, envelope = _parts(data)
    tables = [msgpack.unpackb(table)] if table else []  # one, or none
    return [kind, columns, tables, msgpack.unpackb(envelope)]


def _dump_message(value: Any) -> bytes:
    kind, columns, tables, envelope = value
    table = b"".join(map(msgpack.packb, tables))
    return message(kind, bytes(msgpack.packb(envelope)), table, columns)


def message(kind: int, envelope: bytes, table: bytes, columns: bytes) -> bytes:
    """Return the input that `frame` makes this message of. The envelope is last, free to grow."""
    return bytes([kind]) + join([columns, table]) + envelope


def _parts(data: bytes) -> tuple[int, bytes, bytes, bytes]:
    """Return kind, columns, table and envelope of an input."""
    columns = 3 + int.from_bytes(data[1:3], "little")
    table = columns + 2 + int.from_bytes(data[columns : columns + 2], "little")
    return data[0], data[3:columns], data[columns + 2 : table], data[table:]


def unframed(sealed: bytes | bytearray) -> bytes:
    """Return the input that `frame` makes this frame of."""
    opened = wire.open_frame(sealed)
    envelope = bytes(msgpack.packb(opened.envelope))
    return message(opened.kind, envelope, opened.table, bytes(opened.data))


def frame(data: bytes) -> bytes:
    """Return a frame of any parts with right lengths and checksum; or bytes as they come."""
    if not data or data[0] == RAW:
        return data[1:]
    kind, columns, table, envelope = _parts(data)
    body = envelope + table
    if columns:
        body += bytes(-(wire.HEAD + len(body)) % ALIGNMENT) + columns
    lengths = len(envelope), len(table), wire.HEAD + len(body)
    head = wire.PREAMBLE.pack(wire.MAGIC, wire.VERSION, kind, *lengths)
    return head + wire.CHECKSUM.pack(zlib.crc32(body, zlib.crc32(head))) + body


def split(data: bytes) -> list[bytes]:
    """Return several inputs from one: each stands after two bytes with its length."""
    found = []
    while data:
        end = 2 + int.from_bytes(data[:2], "little")
        found.append(data[2:end])
        data = data[end:]
    return found


def join(parts: list[bytes]) -> bytes:
    """Return the input that `split` takes apart."""
    return b"".join(len(part).to_bytes(2, "little") + part for part in parts)


def segment(data: bytes, number: int = 1) -> bytes:
    """Return a segment of a journal: records with right checksums, noise between, zeros behind."""
    pieces = [form.header(number, SALT)]
    for part in split(data):
        kind, payload = part[:1], part[1:]
        if kind == bytes([RAW]):
            pieces.append(payload)
            continue
        head = form.HEAD.pack(SALT, kind[0] if kind else 0, form.NO_LINK, len(payload))
        covered = payload[: form.COVERED] if kind == bytes([form.Kind.MESSAGE]) else payload
        pieces += [
            head,
            form.CHECKSUM.pack(zlib.crc32(covered, zlib.crc32(head))),
            payload,
            bytes(-len(payload) % form.ALIGNMENT),
        ]
    return b"".join(pieces) + bytes(64)


MESSAGE = Structure(_load_message, _dump_message)
RECORD = Structure(
    lambda data: [data[0], msgpack.unpackb(data[1:])],
    lambda value: bytes([value[0]]) + bytes(msgpack.packb(value[1])),
)
PACKED = Structure(msgpack.unpackb, lambda value: bytes(msgpack.packb(value)))
JSON = Structure(json.loads, lambda value: json.dumps(value).encode())


def change(structure: Structure, data: bytes, seed: int) -> bytes:
    """Return the input with a part of its tree replaced, repeated or left out, if it has a tree."""
    chance = Random(seed)
    try:
        value = structure.load(data)
        for _ in range(chance.randint(1, 3)):
            value = _changed(value, chance)
        return structure.dump(value)
    except (
        Exception
    ):  # the input has lost its structure, or the change cannot be written: other inputs will do
        return data


def _changed(value: Any, chance: Random) -> Any:
    children = (
        list(value)
        if isinstance(value, dict)
        else list(range(len(value)))
        if isinstance(value, list)
        else []
    )
    if not children or chance.random() < 0.1:
        return _other(value, chance)
    key = chance.choice(children)
    fate = chance.random()
    if fate < 0.06:
        del value[key]
    elif fate < 0.12 and isinstance(value, list):
        value.insert(key, value[chance.choice(children)])
    elif fate < 0.12:
        value[chance.choice(["", "x", "columns", *map(str, children)])] = value[key]
    else:
        value[key] = _changed(value[key], chance)
    return value


def _other(value: Any, chance: Random) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and chance.random() < 0.5:
        return value + chance.choice((-64, -1, 1, 2, 64, value))
    if isinstance(value, bytes) and value and chance.random() < 0.7:
        position = chance.randrange(len(value))
        return value[:position] + bytes([chance.randrange(256)]) + value[position + 1 :]
    return chance.choice(NASTY)
