"""The schema of rows and of tensors: a hash of a text that any language can write."""

import hashlib
from collections.abc import Iterable, Sequence

DIGITS = 16  # hexadecimal, of a SHA-256


def digest(lines: Iterable[str]) -> str:
    """Return the hash of lines, each ended by a newline."""
    text = "".join(f"{line}\n" for line in lines)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def line(*words: object) -> str:
    """Return one line of a schema's text; a name, which may have spaces, is its last word."""
    return " ".join(map(str, words))


def sizes(numbers: Sequence[int]) -> str:
    """Return a shape or numbers of choices as one word: `84x84`, and `-` for a single number."""
    return "x".join(map(str, numbers)) or "-"
