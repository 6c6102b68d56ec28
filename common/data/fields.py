"""The fields of messages: the syntax of names, constrained types, and numbers of processes.

Names appear in topics, paths and log lines.
"""

import re
import secrets
from typing import Annotated

from msgspec import Meta

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")  # policies, runs
ACTOR = re.compile(rf"(?:{NAME.pattern}/)?{NAME.pattern}")  # the label of its key, if any; its name

DEFAULT_POLICY = "default"  # where one policy plays all agents

RULE = "a name has at most 64 letters, digits, and any of _ . -"

# No figure of an honest environment or report is larger. Sums of 100 million such squares are
# finite as float32, and no integer up to it is rounded as a double.
MAGNITUDE = 1e15

# Of a float in a row or in gradients, unless a learner is told otherwise. A product of two such and
# its square are finite as float32, so neither a loss nor an optimizer's second moment overflows.
LARGEST = 1e9

IDENTITY_BITS = 53  # a double, the only number of some languages, holds them exactly

Name = Annotated[str, Meta(pattern=rf"\A(?:{NAME.pattern})\Z")]
ActorName = Annotated[str, Meta(pattern=rf"\A(?:{ACTOR.pattern})\Z")]
Natural = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Identity = Annotated[int, Meta(ge=0, lt=1 << IDENTITY_BITS)]


def draw_identity() -> int:
    """Draw the random number of an incarnation, a learner process or a question."""
    return secrets.randbits(IDENTITY_BITS)


def default_name(host: str, number: int) -> str:
    """Return `<host>-<number in hexadecimal>` as a valid name."""
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '-', host)[:40]}-{number & 0xFFFFFF:06x}"
