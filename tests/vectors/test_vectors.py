"""The examples of messages: written by our code, read by a reader written from the page."""

import json
import struct
import zlib
from pathlib import Path

import lz4.block
import msgpack
import pytest
from vectors import write

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.json"))
FORMATS = {"float32": "f", "float64": "d", "int64": "q", "int32": "i", "uint8": "B", "bool": "?"}


def read_by_the_page(frame):
    """Return kind, envelope, table and columns, by docs/protocol.md and none of our modules."""
    assert frame[0:2] == b"\xfa\x5f"
    assert frame[2] == 1
    envelope_bytes, table_bytes, total, checksum = struct.unpack("<4I", frame[4:20])
    assert total == len(frame)
    assert checksum == zlib.crc32(frame[20:], zlib.crc32(frame[:16]))
    envelope_end = 20 + envelope_bytes
    table_end = envelope_end + table_bytes
    envelope = msgpack.unpackb(frame[20:envelope_end])
    table = msgpack.unpackb(frame[envelope_end:table_end]) if table_bytes else []
    start = (table_end + 63) // 64 * 64
    columns, end = {}, table_end
    for name, dtype, shape, offset, length, encoding in table:
        assert offset % 64 == 0
        assert not any(frame[end : start + offset])
        end = start + offset + length
        count = 1
        for number in shape:
            count *= number
        block = frame[start + offset : end]
        if encoding == "lz4":
            size = count * struct.calcsize("<" + FORMATS[dtype])
            block = lz4.block.decompress(block, uncompressed_size=size)
        columns[name] = list(struct.unpack(f"<{count}{FORMATS[dtype]}", block))
    assert end == total
    return frame[3], envelope, table, columns


def as_json(value):
    """Return a value with bytes as the page says that vectors have them."""
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def test_vectors_are_what_our_code_writes():
    """Byte for byte; after a change of the format, run tests/vectors/write.py."""
    assert {path.name: path.read_text() for path in FILES} == write.texts()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_vector_means_what_it_says_to_another_reader(path):
    """Kind, envelope, table and every number of every column."""
    vector = json.loads(path.read_text())
    kind, envelope, table, columns = read_by_the_page(bytes.fromhex(vector["frame"]))
    assert kind == vector["kind"]
    assert as_json(envelope) == vector["envelope"]
    assert (table, columns) == (vector["table"], vector["columns"])


def test_every_kind_has_a_vector():
    """A parcel has four."""
    kinds = [json.loads(path.read_text())["kind"] for path in FILES]
    assert set(kinds) == {int(kind) for kind in write.wire.Kind}
    assert kinds.count(int(write.wire.Kind.PARCEL)) == 4


def test_numbers_in_envelopes_fit_a_double():
    """JSON and languages with doubles only read them exactly."""

    def numbers(value):
        children = value.values() if isinstance(value, dict) else value
        if isinstance(value, dict | list):
            for child in children:
                yield from numbers(child)
        elif isinstance(value, int):
            yield value

    for path in FILES:
        envelope = json.loads(path.read_text())["envelope"]
        assert all(number == int(float(number)) for number in numbers(envelope))
