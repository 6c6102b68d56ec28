"""The arguments of environments and wrappers as words of a command line."""

import json
from collections.abc import Sequence
from typing import Any

from farflung.common.process.errors import UsageError


def arguments(flag: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return the arguments in KEY=VALUE texts and JSON objects; a VALUE is JSON, or else text."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if text.lstrip().startswith("{"):
            found |= _json(text, flag)
        elif equals and key.strip():
            found[key.strip()] = _json_or_text(value)
        else:
            raise UsageError(f"{flag} {text!r}: write KEY=VALUE or a JSON object")
    return found


def wrapper(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of a wrapper, `NAME:KEY=VALUE,KEY=VALUE`."""
    name, _, rest = text.partition(":")
    texts = [rest] if rest.startswith("{") else [part for part in rest.split(",") if part]
    return name, arguments("--wrapper", texts)


def _json(text: str, flag: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except ValueError as error:
        raise UsageError(f"{flag} {text!r} is not a JSON object: {error}") from error


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
