"""The words of other libraries for our flags: some are taken with a hint, some refused with one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from farflung.common.process.errors import UsageError


@dataclass(frozen=True)
class Aliases:
    """Names of flags without their dashes, with our names for them."""

    same: Mapping[str, str] = field(default_factory=dict)  # that mean what ours mean
    other: Mapping[str, str] = field(default_factory=dict)  # that mean something else: a hint


def translated(
    program: str, argv: Sequence[str], aliases: Aliases, known: frozenset[str] = frozenset()
) -> tuple[list[str], list[str]]:
    """Return the command line in our words, and a hint for each word that was another's.

    Raise `UsageError` with a hint for a word that has no equal here. Known names are ours.
    """
    words, hints = [], []
    for word in argv:
        flag, equals, value = word.partition("=")
        name = flag.removeprefix("--").replace("_", "-")
        if flag.startswith("--") and name not in known:
            if name in aliases.other:
                raise UsageError(f"{flag} is unknown here. {aliases.other[name]}")
            if name in aliases.same:
                ours = f"--{aliases.same[name]}"
                hints.append(f"{program}: {flag} is called {ours} here")
                word = f"{ours}{equals}{value}"
        words.append(word)
    return words, hints
