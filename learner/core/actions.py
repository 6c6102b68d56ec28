"""Actions: everything that a schedule can decide, as data.

An action says what is done and with how much, never with which objects. A log of them together with
the parcels in their order is enough to do the same again, in another process or after a crash.
"""

from dataclasses import dataclass

from farflung.learner.core.pacing import Waiting


@dataclass(frozen=True, slots=True)
class Insert:
    """Take so many parcels from the head of the queue into the replay, in one go."""

    parcels: int


@dataclass(frozen=True, slots=True)
class Update:
    """Sample a batch, compute gradients, apply them."""


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish the weights under the next version."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until there is something to insert, or for a moment."""

    waiting: Waiting


@dataclass(frozen=True, slots=True)
class Stop:
    """End the run."""


Action = Insert | Update | Publish | Wait | Stop

UPDATE, PUBLISH, STOP = Update(), Publish(), Stop()
