"""The incoming side of commands: who may send them, how fast, and each number once.

A command is not kept in the journal. Its number counts in this epoch, and it names the epoch: so
none is executed twice. The answers that must survive a restart are in the record of commands.
"""

from farflung.common.net.bucket import Bucket
from farflung.common.net.keys import Client
from farflung.common.process.errors import Refused
from farflung.common.protocol.acknowledgements import AcknowledgementSchedule
from farflung.common.protocol.inbox import Admission, Inbox
from farflung.common.protocol.messages import Command
from farflung.learner.endpoint.items import Item, Settlements

# In all: each is answered on disk, and its number kept in 16 bytes or more until the learner ends.
COMMANDS, COMMANDS_PER_S = 32, 1.0


class CommandIntake:
    """Takes the commands of those who have the right to send them."""

    def __init__(
        self,
        inbox: Inbox,  # its ledger is the book of commands
        acknowledgements: AcknowledgementSchedule,
        settlements: Settlements,
    ) -> None:
        self._inbox, self._acknowledgements = inbox, acknowledgements
        self._settlements = settlements
        self._pace = Bucket(COMMANDS, 0.0)

    def take(self, command: Command, sender: Client, now: float) -> Item[Command] | None:
        """Return a command that is new; its sender is told again about one that is not."""
        key = command.actor, command.incarnation
        number = *key, command.sequence
        if command.epoch < 1:
            raise Refused("epoch", "a command names the epoch of the learner that it is for")
        if not self._inbox.has(*number) and not self._pace.take(now, COMMANDS_PER_S):
            raise Refused("rate", f"more than {COMMANDS} commands at once, and one a second")
        admission = self._inbox.admit(*number, command.base)
        if admission is Admission.NEW:
            return Item(command, command, b"", self._settlements, by=asker(command, sender))
        if admission is Admission.DUPLICATE:
            self._acknowledgements.add_news(key)  # the sender does not know yet
        return None


def asker(command: Command, sender: Client) -> str:
    """Return who asks, for the log: the name in the command, and the connection that brought it."""
    way = f" at {sender.address}" if sender.address else ""
    if sender.label and not command.actor.startswith(f"{sender.label}/"):
        way = f" through {sender.label}{way}"
    return f"{command.actor}{way}"
