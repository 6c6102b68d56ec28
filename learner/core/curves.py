"""The names of curves: those of the learner, and those of metrics of one's own."""

import re
from collections.abc import Iterable, Sequence

from farflung.common.data.fields import NAME
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.text import printable

LETTERS = 128  # of a name
SYNTAX = re.compile(rf"{NAME.pattern}(?:/{NAME.pattern})*")
# First parts of names that the learner writes itself.
OWN = frozenset({"rollout", "eval", "time", "pacing", "replay", "actors", "parcels", "gradients"})
OWN |= {"games", "archive"}
IS_SUCCESS, SUCCESS_RATE = "is_success", "success_rate"  # as in Stable-Baselines3
OF_OTHERS = {"epsilon": "rollout/exploration_rate"}  # Stable-Baselines3's, where it has another


def of_episodes(metric: str) -> str:
    """Return the name of the mean of a metric: that of `is_success` is `success_rate`."""
    return SUCCESS_RATE if metric == IS_SUCCESS else metric


def reported(metrics: Iterable[str]) -> tuple[str, ...]:
    """Return the names under which environments report metrics: `is_success`, and these."""
    return tuple(dict.fromkeys((IS_SUCCESS, *metrics)))


def wanted(metrics: Sequence[str], compared: Iterable[str]) -> tuple[str, ...]:
    """Return those that settings name: in `--metrics`, or by their means in a condition."""
    means = {name.rpartition("/")[2] for name in compared}
    return tuple(m for m in reported(metrics) if m in metrics or of_episodes(m) in means)


def published(name: str) -> str:
    """Return the name under which a metric of updates, exploration or a caller is written."""
    return OF_OTHERS.get(name) or (name if "/" in name else f"train/{name}")


def require_name(name: str) -> None:
    """Refuse a name that is no curve's, or that is the learner's own."""
    if not isinstance(name, str) or not SYNTAX.fullmatch(name) or len(name) > LETTERS:
        raise ConfigurationError(
            f"metric {printable(str(name))!r}: a name has at most {LETTERS} letters, digits, "
            "and any of _ . - and /"
        )
    group, slash, _ = name.partition("/")
    if slash and group in OWN:
        raise ConfigurationError(
            f"metric {name!r}: what begins with {group}/ is the learner's own, use another word"
        )
