"""The inboxes of a learner: one that the journal makes durable, and one for workers' gradients.

Gradients are not kept. After a restart of the learner their numbers mean nothing, so a worker draws
an incarnation for each epoch, and nothing of them is in the journal or a checkpoint.
"""

from farflung.common.process.errors import Refused
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.incarnation import Received
from farflung.common.protocol.wire import Kind


class Inboxes:
    """Both inboxes. An incarnation sends gradients or other numbered messages, never both.

    The ledger of the second one is the book of gradients: all that came are applied, waiting,
    repeated, or refused for a reason.
    """

    def __init__(self, durable: Inbox, takes: frozenset[Kind]) -> None:
        self.durable = durable
        self.gradients = Inbox(durable.epoch)
        self._takes = Kind.GRADIENTS in takes

    @property
    def epoch(self) -> int:
        """The number of this start of the learner within its run."""
        return self.durable.epoch

    def of(self, kind: int) -> Inbox:
        """Return the inbox of a kind. Gradients that are not taken count as parcels do."""
        return self.gradients if self._takes and kind == Kind.GRADIENTS else self.durable

    def holder(self, actor: str, incarnation: int) -> Inbox:
        """Return the inbox of an incarnation."""
        return self.gradients if self.gradients.knows(actor, incarnation) else self.durable

    def require_one_sort(self, kind: int, actor: str, incarnation: int) -> None:
        """Refuse gradients of an actor, and rows of a worker."""
        own = self.of(kind)
        other = self.durable if own is self.gradients else self.gradients
        if other.knows(actor, incarnation):
            raise Refused("kind", f"{actor} sends rows and gradients under one incarnation")

    def knows(self, actor: str, incarnation: int) -> bool:
        """Return whether any number of an incarnation was received."""
        return self.holder(actor, incarnation).knows(actor, incarnation)

    def pending(self, actor: str, incarnation: int) -> int:
        """Return how many numbers of an incarnation are not settled yet."""
        return self.holder(actor, incarnation).pending(actor, incarnation)

    def received(self, actor: str, incarnation: int) -> Received:
        """Return the numbers of an incarnation that may be acknowledged."""
        return self.holder(actor, incarnation).received(actor, incarnation)
