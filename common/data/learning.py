"""The learning that workers share: they compute gradients, and the learner takes the steps."""

import math
from typing import Any

from msgspec import Struct


class Learning(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings by which workers learn, and the learner's rules for their gradients."""

    algorithm: str  # a name; a worker imports none of those that come over the network
    settings: dict[str, Any]  # of the algorithm, plain values
    model: str  # the network as package.module:function; empty: the built-in one
    batch: int  # rows of an update
    capacity: int  # rows of a worker's replay
    warmup: int  # rows before its first update
    ratio: float  # samples drawn for each row after that
    staleness: int  # versions by which gradients may be behind
    publish_every: int  # updates between two versions
    alone: bool  # the learner takes no rows

    @property
    def may_owe(self) -> int:
        """Steps along gradients of one version before they are too stale."""
        return self.publish_every * (self.staleness + 1)

    def most_steps(self, window: int) -> int:
        """Return the environment steps between two messages of a worker at most.

        It collects until an update is due, in windows of so many rows.
        """
        return self.warmup + math.ceil(self.batch / self.ratio) + window
