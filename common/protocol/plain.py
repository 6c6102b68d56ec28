"""Frozen dataclasses and typed tables as plain data and back, strictly: what arrives has exactly the declared fields and types."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints, is_typeddict

from farflung.common.process.errors import Refused

T = TypeVar("T")
Reader = Callable[[object, str], Any]

SCALARS: dict[type, tuple[type, ...]] = {
    str: (str,),
    bytes: (bytes,),
    bool: (bool,),
    int: (int,),
    float: (float, int),
}
DEPTH = 8  # of free-form values


def to_plain(value: object) -> Any:
    """The value as dictionaries, lists and scalars."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    return value


def from_plain(kind: type[T], value: object) -> T:
    """The dataclass that `to_plain` made into `value`, or a typed table; raises `Refused` naming the field that differs."""
    declared: Any = kind
    result: T = _reader(declared)(value, getattr(kind, "__name__", str(kind)))
    return result


@cache
def _reader(kind: Any) -> Reader:
    """The function that reads one declared type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value, where: _free(value, where, DEPTH)
    if kind in SCALARS:
        return _scalar(kind)
    if is_dataclass(kind) or is_typeddict(kind):
        return _record(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _one_of(kind, {member.value for member in kind})
    if origin is Literal:
        return _one_of(lambda value: value, set(arguments))
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _named_tuple(kind)
    if origin is tuple:
        return _sequence(arguments)
    if origin is list:
        return lambda value, where: list(_sequence((*arguments, ...))(value, where))
    if origin is dict:
        return _mapping(_reader(arguments[1]))
    if origin is UnionType and type(None) in arguments:
        inner = _reader(next(argument for argument in arguments if argument is not type(None)))
        return lambda value, where: None if value is None else inner(value, where)
    raise TypeError(f"a message cannot hold a {kind}")


def _scalar(kind: type) -> Reader:
    def read(value: object, where: str) -> Any:
        if not isinstance(value, SCALARS[kind]) or (isinstance(value, bool) and kind is not bool):
            raise Refused("malformed", f"{where} is not {kind.__name__}")
        return kind(value)

    return read


def _record(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    names = hints if is_typeddict(kind) else [field.name for field in fields(kind)]
    readers = {name: _reader(hints[name]) for name in names}

    def read(value: object, where: str) -> Any:
        if not isinstance(value, dict) or value.keys() != readers.keys():
            raise Refused("malformed", f"{where} does not have the fields of {kind.__name__}")
        return kind(
            **{
                name: read_field(value[name], f"{where}.{name}")
                for name, read_field in readers.items()
            }
        )

    return read


def _named_tuple(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    read_items = _sequence(tuple(hints[name] for name in kind._fields))
    return lambda value, where: kind._make(read_items(value, where))


def _one_of(make: Callable[[Any], Any], allowed: set[Any]) -> Reader:
    def read(value: object, where: str) -> Any:
        if not isinstance(value, str | int) or value not in allowed:
            raise Refused("malformed", f"{where} is none of {', '.join(sorted(map(str, allowed)))}")
        return make(value)

    return read


def _sequence(arguments: tuple[Any, ...]) -> Reader:
    endless = len(arguments) == 2 and arguments[1] is Ellipsis
    readers = [_reader(argument) for argument in arguments if argument is not Ellipsis]

    def read(value: object, where: str) -> Any:
        if not isinstance(value, list | tuple) or not (endless or len(value) == len(readers)):
            raise Refused("malformed", f"{where} is not a list of the declared length")
        many = readers * len(value) if endless else readers
        return tuple(
            read_item(item, f"{where}[{index}]")
            for index, (read_item, item) in enumerate(zip(many, value, strict=True))
        )

    return read


def _mapping(read_item: Reader) -> Reader:
    def read(value: object, where: str) -> Any:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise Refused("malformed", f"{where} is not a table with names as keys")
        return {key: read_item(item, f"{where}.{key}") for key, item in value.items()}

    return read


def _free(value: object, where: str, depth: int) -> Any:
    """An argument of an environment or a wrapper: scalars, lists and tables of them."""
    if depth == 0:
        raise Refused("malformed", f"{where} is nested too deeply")
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise Refused("malformed", f"{where} has a key that is no name")
        return {key: _free(item, where, depth - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_free(item, where, depth - 1) for item in value]
    if value is None or isinstance(value, str | int | float | bool | bytes):
        return value
    raise Refused("malformed", f"{where} holds a {type(value).__name__}")
