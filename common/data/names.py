"""What a name may look like: it is in topics, paths and log lines."""

import re

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")  # policies, runs
ACTOR = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}/)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
)  # an optional key label, then the actor's own name

RULE = "a name has at most 64 letters, digits, and any of _ . -"


def default_name(host: str, number: int) -> str:
    """`<host>-<number in hexadecimal>`, made of what a name may contain."""
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '-', host)[:40]}-{number & 0xFFFFFF:06x}"
