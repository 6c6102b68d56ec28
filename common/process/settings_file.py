"""The TOML file of a run: every setting with the origin of its value, readable by --config."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, cast, get_type_hints

from cyclopts import Parameter

from farflung.common.process.config import Origin

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def resolved_toml(config: "DataclassInstance", origins: Mapping[str, str]) -> str:
    """Return every value with its origin, as a file for `--config`."""
    top, sections = [], []
    for key, value in _entries(config):
        if is_dataclass(value) and not isinstance(value, type):
            lines = [
                _line(name, inner, origins.get(f"{key}.{name}")) for name, inner in _entries(value)
            ]
            sections += ["", f"[{key}]", *lines]
        else:
            top.append(_line(key, value, origins.get(key)))
    return "\n".join([*top, *sections]) + "\n"


def keys(config: "DataclassInstance") -> dict[str, bool]:
    """Return the full names of all settings; True marks a section."""
    known: dict[str, bool] = {}
    for key, value in _entries(config):
        known[key] = is_dataclass(value) and not isinstance(value, type)
        if known[key]:
            inner = _entries(cast("DataclassInstance", value))
            known |= {f"{key}.{name}": False for name, _ in inner}
    return known


def values(config: "DataclassInstance") -> dict[str, object]:
    """Return the values of all settings by their full names."""
    found: dict[str, object] = {}
    for key, value in _entries(config):
        if is_dataclass(value) and not isinstance(value, type):
            found |= {f"{key}.{name}": inner for name, inner in _entries(value)}
        else:
            found[key] = value
    return found


def _entries(config: "DataclassInstance") -> Iterator[tuple[str, object]]:
    """Yield the keys and values of one level of a configuration."""
    hints = get_type_hints(type(config), include_extras=True)
    for item in fields(config):
        marks = (
            mark
            for mark in getattr(hints[item.name], "__metadata__", ())
            if isinstance(mark, Parameter)
        )
        names = [name for mark in marks for name in mark.name or ()]
        key = names[0].removeprefix("--") if names else item.name.replace("_", "-")
        yield key, getattr(config, item.name)


def _line(key: str, value: object, origin: str | None) -> str:
    if value is None:
        return f"# {key} is not set"
    return f"{key} = {toml(value)}  # {origin or Origin.DEFAULT}"


def toml(value: object) -> str:
    """Return one value in TOML syntax."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(str(value), ensure_ascii=False)
