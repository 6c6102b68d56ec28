"""The syntax of names, which appear in topics, paths and log lines."""

import re

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")  # policies, runs
ACTOR = re.compile(rf"(?:{NAME.pattern}/)?{NAME.pattern}")  # the label of its key, if any; its name

RULE = "a name has at most 64 letters, digits, and any of _ . -"


def default_name(host: str, number: int) -> str:
    """Return `<host>-<number in hexadecimal>` as a valid name."""
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '-', host)[:40]}-{number & 0xFFFFFF:06x}"
