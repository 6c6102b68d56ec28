"""The parts of a frame as bytes and back, within limits that hold before memory is taken.

A message becomes plain data and then msgpack. A column is sent as it is, or as lz4.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgpack
import msgspec

from farflung.common.process.errors import Refused

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

CONTAINERS = frozenset({dict, list, tuple})
DEPTH = 14  # of a message; its free-form arguments may use what is left, 8 levels or more
LZ4_RATIO = 255  # no block of lz4 unpacks to more than so many times its bytes


def to_plain(value: object) -> Any:
    """Return the value as dictionaries, lists, tuples and scalars."""
    return msgspec.to_builtins(value, builtin_types=(bytes,))


def from_plain(kind: type[T], plain: Any) -> T:
    """Return the value that `to_plain` made plain; raise `Refused` naming the field that differs.

    A default of a field does not make it optional.
    """
    try:
        value = msgspec.convert(plain, kind, builtin_types=(bytes,))
        declared = to_plain(value)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Refused("malformed", f"{_name(kind)}: {error}") from error
    _require_fields(plain, declared, _name(kind), DEPTH)
    return value


def from_older(kind: type[T], plain: Any) -> T:
    """Return the same of a file that an older release wrote: it may lack fields with a default."""
    try:
        return msgspec.convert(plain, kind, builtin_types=(bytes,))
    except (msgspec.ValidationError, RecursionError) as error:
        raise Refused("malformed", f"{_name(kind)}: {error}") from error


def from_flat(kind: type[S], plain: dict[str, Any]) -> S:
    """Return the same of a struct that holds no tables, in a fraction of the time.

    The struct itself refuses surplus fields: with as many as are declared, none is missing.
    """
    try:
        value = msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise Refused("malformed", f"{_name(kind)}: {error}") from error
    if len(plain) != len(kind.__struct_fields__):
        _require_fields(plain, to_plain(value), _name(kind), DEPTH)
    return value


def _name(kind: type) -> str:
    return getattr(kind, "__name__", str(kind))


def _require_fields(plain: Any, declared: Any, where: str, depth: int) -> None:
    """Refuse plain data if one of its maps lacks a declared key or has another one."""
    if depth == 0:
        raise Refused("malformed", f"{where} is nested too deeply")
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(declared, list | tuple):
        items = enumerate(declared)
    elif isinstance(declared, dict):
        if plain.keys() != declared.keys():
            odd = ", ".join(sorted(plain.keys() ^ declared.keys()))
            raise Refused("malformed", f"{where} lacks fields or has others: {odd}")
        items = declared.items()
    for key, value in items:
        if type(key) is bytes:
            raise Refused("malformed", f"{where} has a key that is not a text")
        if type(value) in CONTAINERS:
            _require_fields(plain[key], value, f"{where}.{key}", depth - 1)


def pack(value: Any) -> bytes:
    """Return plain data as msgpack."""
    packed: bytes = msgpack.packb(value)
    return packed


def unpack(packed: bytes | memoryview, part: str) -> Any:
    """Return what was packed; raise `Refused` under the name of this part of a frame."""
    try:
        # No text, array or map may claim to be longer than all that was packed: its default.
        return msgpack.unpackb(packed, max_ext_len=0)
    except msgpack.exceptions.StackError as error:
        raise Refused(part, "it is nested more than a thousand levels deep") from error
    except Exception as error:  # msgpack raises a dozen kinds, and each means the same here
        raise Refused(part, f"it cannot be read: {type(error).__name__}") from error


def unpack_map(packed: bytes | memoryview, part: str) -> dict[str, Any]:
    """Return a map that was packed; raise `Refused` for anything else."""
    fields = unpack(packed, part)
    if not isinstance(fields, dict):
        raise Refused(part, "it is not a map")
    return fields


def _compress(block: bytes | memoryview) -> bytes:
    import lz4.block  # only actors and learners have it, and only images use it

    packed: bytes = lz4.block.compress(block, store_size=False)
    return packed


def _decompress(block: memoryview, size: int) -> bytes:
    """Return at most `size` bytes, known from the receiver's spec before memory is taken."""
    import lz4.block

    if size > LZ4_RATIO * len(block):
        raise Refused("encoding", f"{len(block)} compressed bytes cannot hold {size}")
    try:
        unpacked: bytes = lz4.block.decompress(block, uncompressed_size=size)
    except (lz4.block.LZ4BlockError, ValueError, OverflowError, MemoryError) as error:
        raise Refused("encoding", "a compressed column cannot be read") from error
    return unpacked


ENCODE: dict[str, Callable[[bytes | memoryview], bytes | memoryview]] = {
    "": lambda block: block,
    "lz4": _compress,
}
DECODE: dict[str, Callable[[memoryview, int], bytes | memoryview]] = {
    "": lambda block, size: block,
    "lz4": _decompress,
}
