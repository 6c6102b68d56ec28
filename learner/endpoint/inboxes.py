"""The inboxes of a learner: one that the journal makes durable, those of gradients and commands.

Gradients and commands are not kept. After a restart of the learner their numbers mean nothing, so
their senders draw an incarnation for each epoch, and nothing of them is in the journal or a
checkpoint.
"""

from farflung.common.process.errors import Refused
from farflung.common.protocol import wire
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.incarnation import Received
from farflung.common.protocol.messages import Command, Numbered
from farflung.common.protocol.tensors import read_gradients_envelope
from farflung.common.protocol.wire import Kind, Opened

NUMBERED = {Kind.PARCEL: "parcels", Kind.GRADIENTS: "gradients", Kind.COMMAND: "commands"}


def envelope_of(opened: Opened) -> Numbered:
    """Return the envelope of a numbered message; a command is nothing else."""
    if opened.kind is Kind.PARCEL:
        return wire.read_envelope(opened)
    if opened.kind is Kind.GRADIENTS:
        return read_gradients_envelope(opened)
    command = wire.read(opened)
    assert isinstance(command, Command)
    return command


class Inboxes:
    """The inboxes. An incarnation sends rows, gradients or commands, and never two of them.

    The ledgers of the others are the books of gradients and of commands: all that came are settled,
    waiting, repeated, or refused for a reason.
    """

    def __init__(self, durable: Inbox, takes: frozenset[Kind]) -> None:
        self.durable = durable
        self.gradients, self.commands = Inbox(durable.epoch), Inbox(durable.epoch)
        others = {Kind.GRADIENTS: self.gradients, Kind.COMMAND: self.commands}
        self._others: dict[int, Inbox] = {kind: others[kind] for kind in others if kind in takes}

    @property
    def epoch(self) -> int:
        """The number of this start of the learner within its run."""
        return self.durable.epoch

    def of(self, kind: int) -> Inbox:
        """Return the inbox of a kind. One that is not taken counts as parcels do."""
        return self._others.get(kind, self.durable)

    def holder(self, actor: str, incarnation: int) -> Inbox:
        """Return the inbox of an incarnation."""
        for inbox in self._others.values():
            if inbox.knows(actor, incarnation):
                return inbox
        return self.durable

    def require_one_sort(self, kind: int, actor: str, incarnation: int) -> None:
        """Refuse gradients of an actor, rows of a worker, and so on."""
        own = self.of(kind)
        for other in (self.durable, *self._others.values()):
            if other is not own and other.knows(actor, incarnation):
                raise Refused("kind", f"{actor} sends several kinds under one incarnation")

    def knows(self, actor: str, incarnation: int) -> bool:
        """Return whether any number of an incarnation was received."""
        return self.holder(actor, incarnation).knows(actor, incarnation)

    def pending(self, actor: str, incarnation: int) -> int:
        """Return how many numbers of an incarnation are not settled yet."""
        return self.holder(actor, incarnation).pending(actor, incarnation)

    def received(self, actor: str, incarnation: int) -> Received:
        """Return the numbers of an incarnation that may be acknowledged."""
        return self.holder(actor, incarnation).received(actor, incarnation)
