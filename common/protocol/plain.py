"""Messages as plain data and back, strictly: exactly the declared fields and types."""

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from farflung.common.process.errors import Refused

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

CONTAINERS = frozenset({dict, list, tuple})
DEPTH = 14  # of a message; its free-form arguments may use what is left, 8 levels or more


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
