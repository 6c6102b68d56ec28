"""The names of curves: those of the learner, and those of metrics of one's own."""

import re

from farflung.common.data.fields import NAME
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.text import printable

LETTERS = 128  # of a name
SYNTAX = re.compile(rf"{NAME.pattern}(?:/{NAME.pattern})*")
# First parts of names that the learner writes itself.
OWN = frozenset({"rollout", "eval", "time", "pacing", "replay", "actors", "parcels"})
OF_OTHERS = {"epsilon": "rollout/exploration_rate"}  # Stable-Baselines3's, where it has another


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
