"""The space of a sweep: for each searched setting a range or choices."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from farflung.common.process.config import require, suggestion

WORDS = ("low", "high", "log", "step", "choices")


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from low to high; whole ones if both ends are written as whole numbers."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    @property
    def whole(self) -> bool:
        """True for whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def samples(self) -> tuple[Any, ...]:
        """The ends."""
        return self.low, self.high


@dataclass(frozen=True, slots=True)
class Choices:
    """Some values of any kind."""

    values: tuple[Any, ...]

    @property
    def samples(self) -> tuple[Any, ...]:
        """All of them."""
        return self.values


Parameter = Range | Choices


def parameters(where: str, content: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return the parameters in a section [space]; those of a section in it are `section.key`."""
    found: dict[str, Parameter] = {}
    for key, value in content.items():
        if isinstance(value, dict) and not set(WORDS) & set(value) and _holds_sections(value):
            found |= {
                f"{key}.{name}": _parameter(f"{key}.{name} in {where}", inner)
                for name, inner in value.items()
            }
        else:
            found[key] = _parameter(f"{key} in {where}", value)
    return found


def _holds_sections(value: Mapping[str, Any]) -> bool:
    return bool(value) and all(isinstance(inner, dict | list) for inner in value.values())


def _parameter(place: str, value: Any) -> Parameter:
    """Return what a value of the section means."""
    if isinstance(value, list):
        value = {"choices": value}
    require(
        isinstance(value, dict),
        f"{place}: write {{ low = 0.1, high = 1.0 }}, or a list of choices; "
        "a fixed value belongs into [learner]",
    )
    for word in value:
        require(word in WORDS, f"unknown word {word} of {place}.{suggestion(word, WORDS)}")
    if "choices" in value:
        choices = value["choices"]
        require(len(value) == 1, f"{place}: choices stand alone")
        require(isinstance(choices, list) and len(choices) > 0, f"{place}: there are no choices")
        return Choices(tuple(choices))
    return _range(place, value)


def _range(place: str, value: Mapping[str, Any]) -> Range:
    numbers = {word: value.get(word) for word in ("low", "high", "step")}
    low, high, step = numbers.values()
    require(low is not None and high is not None, f"{place}: a range has a low and a high end")
    for word, number in numbers.items():
        fits = number is None or (type(number) in (int, float) and math.isfinite(number))
        require(fits, f"{place}: {word} is no number")
    log = value.get("log", False)
    require(isinstance(log, bool), f"{place}: log is true or false")
    assert low is not None
    assert high is not None
    require(low < high, f"{place}: low is not below high")
    require(not log or low > 0, f"{place}: a logarithmic range begins above 0")
    require(not log or step is None, f"{place}: a logarithmic range has no step")
    require(step is None or step > 0, f"{place}: step must be above 0")
    whole = isinstance(low, int) and isinstance(high, int)
    require(
        not whole or step is None or isinstance(step, int),
        f"{place}: a range of whole numbers has a whole step",
    )
    return Range(low, high, log, step)
