"""The words of commands: their names, the settings that may change while running, and bounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from msgspec import Struct, structs

from farflung.common.process.errors import Refused
from farflung.common.protocol.messages import Command

LEVELS = ("debug", "info", "warning", "error")
DEFAULT = "default"  # in the place of a value: that of the run's settings
LETTERS = 40  # of a text that a refusal repeats


class Name(StrEnum):
    """The commands."""

    PAUSE = "pause"
    RESUME = "resume"
    CHECKPOINT = "checkpoint"
    EVALUATE = "evaluate"
    SET = "set"
    STOP = "stop"


class Steering(Struct, frozen=True, forbid_unknown_fields=True):
    """All that commands have changed in a run. None: as its settings say."""

    paused: bool = False
    weight: float = 1.0  # of its replay ratio: samples for each row are so many times as many
    learning_rate: float | None = None
    replay_ratio: float | None = None
    publish_every: int | None = None
    log_level: str | None = None

    def __post_init__(self) -> None:
        """Refuse a value that could never be held."""
        for field, (least, most) in BOUNDS.items():
            value = getattr(self, field)
            if value is not None and not least <= value <= most:  # NaN is not
                raise ValueError(f"{KEYS[field]} is {least:g} to {most:g}, and not {value:g}")
        if self.log_level not in (None, *LEVELS):
            raise ValueError(f"log-level is one of {', '.join(LEVELS)}")

    @property
    def settings(self) -> dict[str, float | str]:
        """The settings that are not as the run began, under the names of their flags."""
        return {k: value for k, value in changes(AS_BEGUN, self).items() if value is not None}


BOUNDS: dict[str, tuple[float, float]] = {
    "weight": (0.01, 100.0),
    "learning_rate": (1e-9, 10.0),
    "replay_ratio": (1e-4, 1e4),
    "publish_every": (1, 1_000_000),
}
KEYS = {field: field.replace("_", "-") for field in (*BOUNDS, "log_level")}
FIELDS = {key: field for field, key in KEYS.items()}
AS_BEGUN = Steering()


def changes(before: Steering, after: Steering) -> dict[str, float | str | None]:
    """Return the settings that differ, with their new values, under the names of their flags."""
    return {
        key: value
        for field, key in KEYS.items()
        if (value := getattr(after, field)) != getattr(before, field)
    }


@dataclass(frozen=True, slots=True)
class Order:
    """A command that makes sense: its name, and for `set` the fields of a steering that change."""

    name: Name
    changes: Mapping[str, Any]

    def applied(self, steering: Steering) -> Steering:
        """Return the steering after this command."""
        changes = dict(self.changes)
        if self.name in (Name.PAUSE, Name.RESUME):
            changes["paused"] = self.name is Name.PAUSE
        return structs.replace(steering, **changes)

    def __str__(self) -> str:
        """Return the words of a command line."""
        shown = (
            f"{KEYS[field]}={DEFAULT if value is None else value}"
            for field, value in self.changes.items()
        )
        return " ".join((self.name, *shown))


def read(command: Command) -> Order:
    """Return the order in a command; refuse in a sentence all that is none."""
    try:
        name = Name(command.name)
    except ValueError:
        known = ", ".join(Name)
        raise Refused("command", f"{_cut(command.name)} is none: {known}") from None
    if name is not Name.SET:
        if command.arguments:
            raise Refused("key", f"{name} takes no settings, such as {_cut(*command.arguments)}")
        return Order(name, {})
    if not command.arguments:
        raise Refused("key", f"set needs one or more of {', '.join(FIELDS)}")
    changes = dict(_change(key, value) for key, value in command.arguments.items())
    try:
        Order(name, changes).applied(AS_BEGUN)
    except ValueError as error:
        raise Refused("value", str(error)) from error
    return Order(name, changes)


def arguments(words: Sequence[str]) -> dict[str, Any]:
    """Return the arguments that words such as `weight=2` ask for."""
    found: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not text:
            raise Refused("value", f"{_cut(word)}: write KEY=VALUE, such as weight=2")
        if key in found:
            raise Refused("key", f"{_cut(key)} is there twice")
        found[key] = _value(text)
    return found


def _change(key: str, value: Any) -> tuple[str, Any]:
    """Return a field and its new value, of the type that it has."""
    field = FIELDS.get(key)
    if field is None:
        raise Refused("key", f"{_cut(key)} is none that changes: {', '.join(FIELDS)}")
    if value is None:
        return field, getattr(AS_BEGUN, field)
    if field == "log_level":
        right = isinstance(value, str)
    elif field == "publish_every":
        right = type(value) is int
    else:
        right = type(value) in (int, float)
    if not right or (type(value) is int and value.bit_length() > 53):
        raise Refused("value", f"{key} is not {_cut(str(value))}")
    return field, value if field in ("log_level", "publish_every") else float(value)


def _value(text: str) -> Any:
    if text == DEFAULT:
        return None
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _cut(*texts: str) -> str:
    """Return a text of another process, no longer than a sentence can bear."""
    text = texts[0]
    return repr(text if len(text) <= LETTERS else f"{text[:LETTERS]}…")
