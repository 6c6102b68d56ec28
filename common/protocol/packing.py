"""msgpack with explicit limits: the envelope and the table of a frame as bytes, and back."""

from typing import Any

import msgpack

from farflung.common.process.errors import Refused


def pack(value: Any) -> bytes:
    """Return plain data as msgpack."""
    packed: bytes = msgpack.packb(value)
    return packed


def unpack(packed: bytes | memoryview, part: str) -> Any:
    """Return what was packed; raise `Refused` under the name of this part of a frame."""
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
        raise Refused(part, "it is nested more than a thousand levels deep") from error
    except Exception as error:  # msgpack raises a dozen kinds, and each means the same here
        raise Refused(part, f"it cannot be read: {type(error).__name__}") from error


def unpack_map(packed: bytes | memoryview, part: str) -> dict[str, Any]:
    """Return a map that was packed; raise `Refused` for anything else."""
    fields = unpack(packed, part)
    if not isinstance(fields, dict):
        raise Refused(part, "it is not a map")
    return fields
