"""What a name may look like: it is in topics, paths and log lines."""

import re

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")  # policies, runs
ACTOR = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}/)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
)  # an optional key label, then the actor's own name

RULE = "a name has at most 64 letters, digits, and any of _ . -"
