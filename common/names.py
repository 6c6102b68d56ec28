"""What a name may look like: it is in topics, paths and log lines."""

import re

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # policies, runs
ACTOR = re.compile(r"(?:[A-Za-z0-9_.-]{1,64}/)?[A-Za-z0-9_.-]{1,64}")  # an optional key label, then the actor's own name

RULE = "a name has at most 64 letters, digits, and any of _ . -"
