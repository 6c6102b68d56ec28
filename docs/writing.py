"""Paragraphs and sources of the pages that are written from docs/results."""

import textwrap
from typing import Any

WIDTH = 100

Results = dict[str, Any]


def source(found: Results) -> str:
    """Return the source of a measurement."""
    return wrapped(f"`{found['command']}`, {found['date']}, {found['cores']} cores.")


def wrapped(text: str) -> str:
    """Return a paragraph in lines of at most WIDTH columns."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
