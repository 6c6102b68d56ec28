"""Metrics of episodes: numbers in the info of an environment when an episode ends."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from farflung.common.data.fields import MAGNITUDE
from farflung.common.process.text import printable

NUMBERS = "biuf"  # kinds of numpy: bool, whole numbers, floats
NONE = float("nan")


class Measures:
    """The metrics that a spec names. What is no finite number is left out, and reported once."""

    def __init__(
        self,
        names: Sequence[str] = (),
        report: Callable[[str, str], None] = lambda kind, text: None,
    ) -> None:
        self._names, self._report = tuple(names), report
        self._reported: set[str] = set()

    def read(self, info: Mapping[str, Any]) -> tuple[float, ...]:
        """Return the metrics of an episode in order, with NaN for each that is not there."""
        return tuple(self._number(name, info) for name in self._names)

    def read_seat(self, infos: Mapping[str, Any], seat: int) -> tuple[float, ...]:
        """Return the same of one seat of a vectorised environment.

        A mask of the name with `_` before it tells of which seats there is a value.
        """
        return self.read({name: _of_seat(name, infos, seat) for name in self._names})

    def number(self, name: str, found: Any) -> float:
        """Return one value of a metric, or NaN, which is reported."""
        number = _as_float(found)
        if abs(number) <= MAGNITUDE:
            return number
        if name not in self._reported:
            self._reported.add(name)
            self._report(
                "environment",
                f"info[{name!r}] was {printable(repr(found), 100)} at the end of an episode, "
                "and a metric is one finite number: such values are left out",
            )
        return NONE

    def _number(self, name: str, info: Mapping[str, Any]) -> float:
        try:
            found = info[name]
        except (KeyError, TypeError, IndexError):
            return NONE
        return NONE if found is None else self.number(name, found)


NO_METRICS = Measures()


def _of_seat(name: str, infos: Mapping[str, Any], seat: int) -> Any:
    try:
        known = infos.get(f"_{name}")
        return infos[name][seat] if known is None or known[seat] else None
    except (KeyError, TypeError, IndexError, AttributeError):
        return None


def _as_float(found: Any) -> float:
    try:
        array = np.asarray(found)
        return float(array.reshape(())) if array.dtype.kind in NUMBERS else NONE
    except (TypeError, ValueError, RuntimeError):  # a tensor elsewhere, more than one number
        return NONE
