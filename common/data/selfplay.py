"""The part of a spec about games against a pool of opponents."""

from msgspec import Struct

from farflung.common.data.fields import Name

RANDOM_ACTIONS = "random"  # the script that every actor knows


class Selfplay(Struct, frozen=True, forbid_unknown_fields=True):
    """The rules of games against a pool. The pool itself comes with each version of the weights.

    In each episode one seat of an environment plays the live policy, and an opponent all others.
    """

    scripts: tuple[Name, ...] = ()  # that actors must know
    exploration: float = 0.05  # of archived versions: their share of random actions


def scripts_of(rules: Selfplay | None) -> tuple[Name, ...]:
    """Return the scripts that may be opponents, by name."""
    return rules.scripts if rules is not None else ()
