"""The words of other libraries for our flags: some are taken with a hint, some refused with one."""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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


def file_words(
    program: str, aliases: Aliases
) -> Callable[[Path, dict[str, Any], Mapping[str, bool]], dict[str, Any]]:
    """Return a function that translates a program's settings from a file, and hints at ours."""

    def translate(path: Path, content: dict[str, Any], known: Mapping[str, bool]) -> dict[str, Any]:
        found, hints = renamed(program, content, aliases, known, f" in {path}")
        sys.stderr.writelines(f"{hint}\n" for hint in hints)
        return found

    return translate


def renamed(
    program: str,
    settings: Mapping[str, Any],
    aliases: Aliases,
    known: Collection[str] = (),
    where: str = "",
) -> tuple[dict[str, Any], list[str]]:
    """Return settings of a file or of keywords in our words, and a hint for each other word.

    Our name may be in a section: `section.name`. A setting under both names is refused.
    """
    found: dict[str, Any] = {}
    others: dict[str, Any] = {}
    hints = []
    for key, value in settings.items():
        name = key.replace("_", "-")
        if name in aliases.other and name not in known:
            raise UsageError(f"{key}{where} is unknown here. {aliases.other[name]}")
        ours = key if name in known else aliases.same.get(name, key)
        if ours != key:
            hints.append(f"{program}: {key}{where} is called {ours} here")
        if ours in others:
            raise UsageError(f"{ours}{where} is set under two names: keep one of them")
        (found if ours == key else others)[ours] = value
    for ours, value in others.items():
        section, dot, inner = ours.partition(".")
        place = found.setdefault(section, {}) if dot else found
        if not isinstance(place, dict) or (inner or ours) in place:
            raise UsageError(f"{ours}{where} is set under two names: keep one of them")
        place[inner or ours] = value
    return found, hints
