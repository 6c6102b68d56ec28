"""The memory that a learner may take under any attack: a formula of the bounds in its code.

libzmq keeps a message once, however many subscribers have not read it.
"""

import math
from typing import NamedTuple

import numpy as np
from hostile.victim import Victim

from farflung.common.data.spec import Spec
from farflung.common.net.shares import LEARNER, TOPIC_MEMORY
from farflung.common.net.sockets import FEED_BACKLOG_BYTES
from farflung.common.protocol.names import ALL_OPENED, ALL_OPENED_PER_S, NAMES
from farflung.common.protocol.shared_buffer import TOTAL_BYTES
from farflung.common.protocol.snapshots import AT_ONCE_BYTES
from farflung.learner.config import LearnerConfig

NAME_BYTES = 8 << 10  # of one that is live, with what it reported
RETIRED_BYTES = 128  # of an incarnation with holes; 16 without
INDEX_BYTES = 32  # of a row of the replay, besides its columns


class Bounds(NamedTuple):
    """Terms in megabytes, by name."""

    terms: dict[str, float]

    @property
    def most_mb(self) -> float:
        """The sum."""
        return sum(self.terms.values())

    @property
    def formula(self) -> str:
        """Return the terms and their sum in a sentence."""
        terms = " + ".join(f"{mb:.0f} MB {name}" for name, mb in self.terms.items())
        return f"memory of the learner: {terms} = {self.most_mb:.0f} MB at most"


def bounds(target: Victim, minutes: float) -> Bounds:
    """Return the bounds of a learner that is at rest now, for so long."""
    with target.peer() as peer:
        assert peer.spec is not None
        replay = LearnerConfig().capacity * row_bytes(peer.spec)
    opened = ALL_OPENED + ALL_OPENED_PER_S * 60 * minutes
    sizes = {
        "replay": replay,
        "parcels on their way": TOTAL_BYTES,
        "names": NAMES * NAME_BYTES,
        "earlier incarnations": opened * RETIRED_BYTES,
        "feed that is not read": FEED_BACKLOG_BYTES,
        "snapshots": AT_ONCE_BYTES,
        "topics": LEARNER.total.size * TOPIC_MEMORY,
    }
    at_rest = {"at rest": target.learner.own_mb()}
    return Bounds(at_rest | {name: size / 1e6 for name, size in sizes.items()})


def row_bytes(spec: Spec) -> int:
    """Return the bytes of a row in the replay."""
    columns = sum(np.dtype(c.dtype).itemsize * math.prod(c.shape) for c in spec.columns)
    return columns + INDEX_BYTES
