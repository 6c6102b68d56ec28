"""The header of a message: readable names, packed with msgpack. A parcel's ends with its table of columns, which stays packed."""

from typing import Any

import msgpack

from farflung.common.process.errors import Refused

TABLE = "columns"  # the last entry of a parcel's header
LAST = msgpack.packb(TABLE)
FIXED_MAP = range(0x81, 0x90)  # how msgpack begins a map of 1 to 15 entries


def pack(header: dict[str, Any], table: bytes = b"") -> bytes:
    """The bytes of a header. Of a short one the last entry may come packed: a table of columns."""
    head: bytes = msgpack.packb(header)
    return bytes((head[0] + 1,)) + head[1:] + LAST + table if table else head


def pack_table(table: list[list[Any]]) -> bytes:
    """A parcel's table of columns, for `pack`."""
    packed: bytes = msgpack.packb(table)
    return packed


def split(header: bytes) -> tuple[dict[str, Any], bytes]:
    """A parcel's header without its table of columns, and that table still packed."""
    before, _, table = header.rpartition(LAST)
    if not before or before[0] not in FIXED_MAP:
        return _taken_out(header)
    try:
        return unpack(bytes((before[0] - 1,)) + before[1:]), table
    except Refused:
        return _taken_out(header)


def _taken_out(header: bytes) -> tuple[dict[str, Any], bytes]:
    """The same where the table does not come last, or where something else goes by its name."""
    fields = unpack(header)
    return fields, msgpack.packb(fields.pop(TABLE, None))


def unpack(header: bytes | memoryview) -> dict[str, Any]:
    """The entries of a header."""
    fields = read(header)
    if not isinstance(fields, dict):
        raise Refused("header", "it is no table")
    return fields


def read(packed: bytes | memoryview) -> Any:
    """Whatever was packed; else `Refused`."""
    most = len(packed)
    try:
        return msgpack.unpackb(
            packed,
            strict_map_key=True,
            max_ext_len=0,
            max_str_len=most,
            max_bin_len=most,
            max_array_len=most,
            max_map_len=most,
        )
    except msgpack.exceptions.StackError as error:
        raise Refused("header depth", "it is nested more than a thousand levels deep") from error
    except Exception as error:  # msgpack raises a dozen kinds, and each means the same here
        raise Refused("header", f"it cannot be read: {type(error).__name__}") from error


def texts(header: dict[str, Any], *keys: str) -> list[str]:
    """These entries, if all are texts."""
    values = [header.get(key) for key in keys]
    if set(map(type, values)) != {str}:
        raise Refused("header", f"one of {', '.join(keys)} is missing or no text")
    return values  # type: ignore[return-value]  # just checked


def numbers(header: dict[str, Any], *keys: str) -> list[int]:
    """These entries, if all are natural numbers."""
    values: list[Any] = [header.get(key) for key in keys]
    if set(map(type, values)) != {int} or min(values) < 0:
        raise Refused("header", f"one of {', '.join(keys)} is missing or no natural number")
    return values
