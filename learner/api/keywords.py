"""Keyword settings of `farflung.train` as words of a command line: one parser reads both."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from functools import partial
from numbers import Integral, Real
from os import PathLike
from typing import Any, TypeGuard

from farflung.common.process.errors import UsageError

RENAMED = {"imports": "import"}  # which is a word of Python
RENAMED_BACK = {flag: name for name, flag in RENAMED.items()}
FLAG = re.compile(r"--([a-z][a-z0-9-]*)(?:\.([a-z][a-z0-9_-]*))?")


def words(settings: Mapping[str, object]) -> list[str]:
    """Return the flags of these settings; None stands for the default."""
    return [word for name, value in settings.items() for word in _flags(name, value)]


def in_python(sentence: str) -> str:
    """Return a sentence about flags as one about keywords."""

    def keyword(found: re.Match[str]) -> str:
        name = RENAMED_BACK.get(found[1], found[1]).replace("-", "_")
        inner = found[2] and found[2].replace("-", "_")
        return f'{name}={{"{inner}": …}}' if inner else name

    return FLAG.sub(keyword, sentence.replace("Unknown option:", "unknown setting"))


def _flags(name: str, value: object) -> list[str]:
    flag = "--" + RENAMED.get(name, name).replace("_", "-")
    if value is None:
        return []
    if name == "env_args" and isinstance(value, Mapping):
        return [f"{flag}={_json(name, value)}"]
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return [word for key, inner in value.items() for word in _flags(f"{name}.{key}", inner)]
    values = value if _is_list(value) else [value]
    text = _wrapper if name == "wrapper" else partial(_text, name)
    return [f"{flag}={text(each)}" for each in values]


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _text(name: str, value: object) -> str:
    """Return a value as the parser reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | PathLike | Integral):
        return str(value)
    if isinstance(value, Real):
        return repr(float(value))  # exact, also a number of numpy's
    raise UsageError(f"{name}={value!r}: write a number, a text, or a list of them")


def _wrapper(value: object) -> str:
    """Return a wrapper with its arguments: a text, or a pair of a name and a dictionary."""
    if isinstance(value, str):
        return value
    if _is_list(value) and len(value) == 2 and isinstance(value[1], Mapping):
        return f"{value[0]}:{_json('wrapper', value[1])}"
    raise UsageError(f"wrapper={value!r}: write NAME, or a list of pairs (NAME, {{arguments}})")


def _json(name: str, value: Mapping[str, object]) -> str:
    try:
        return json.dumps(dict(value))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}={value!r} cannot be sent to actors as JSON: {error}") from error
