"""The constrained types of the fields of messages, and the numbers that name a process."""

import secrets
from typing import Annotated

from msgspec import Meta

from farflung.common.data.names import ACTOR, NAME

IDENTITY_BITS = 53  # a double, the only number of some languages, holds them exactly

Name = Annotated[str, Meta(pattern=rf"\A(?:{NAME.pattern})\Z")]
ActorName = Annotated[str, Meta(pattern=rf"\A(?:{ACTOR.pattern})\Z")]
Natural = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Identity = Annotated[int, Meta(ge=0, lt=1 << IDENTITY_BITS)]


def draw_identity() -> int:
    """Draw the random number of an incarnation, a learner process or a question."""
    return secrets.randbits(IDENTITY_BITS)
