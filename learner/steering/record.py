"""The record of a run's commands: what they changed, and the answer to each one.

No clock, file or socket. A command counts once: under its id, in the epoch that it names. The
newest answers are kept over a restart, so that one who asks again then gets the same one. A command
of an earlier epoch that is not among them is refused for its epoch, however late it comes.
"""

from collections.abc import Mapping

from msgspec import Struct

from farflung.common.process.errors import Refused
from farflung.common.protocol.messages import Command
from farflung.learner.steering.orders import LETTERS, Order, Steering, read

KEPT = 256  # answers
ANY_EPOCH = 0  # of a command in the run's folder: it may wait there for the next learner
EPOCH = "epoch"

Id = tuple[str, int, int]  # actor, incarnation, number


class Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """A command that was decided about."""

    actor: str
    incarnation: int
    sequence: int
    epoch: int  # of the learner that decided
    order: str  # as words
    by: str  # who asked
    at: str  # UTC
    refused: str = ""  # the reason; empty: it was executed
    detail: str = ""

    @property
    def id(self) -> Id:
        """The id of the command."""
        return self.actor, self.incarnation, self.sequence


class Record(Struct, frozen=True, forbid_unknown_fields=True):
    """The steering of a run, and the answers to the newest commands."""

    steering: Steering = Steering()
    answers: tuple[Answer, ...] = ()  # the newest last

    def find(self, command: Command) -> Answer | None:
        """Return the answer that a command had before."""
        wanted = id_of(command)
        return next((each for each in reversed(self.answers) if each.id == wanted), None)

    def executed(self, command: Command, order: Order, epoch: int, by: str, at: str) -> "Record":
        """Return the record once a command is executed."""
        answer = Answer(*id_of(command), epoch, str(order), by, at)
        return Record(order.applied(self.steering), self._with(answer))

    def refused(self, command: Command, refusal: Refused, epoch: int, by: str, at: str) -> "Record":
        """Return the record once a command is refused: nothing else changes."""
        words = command.name[:LETTERS]
        why = refusal.reason, refusal.detail
        return Record(
            self.steering, self._with(Answer(*id_of(command), epoch, words, by, at, *why))
        )

    def _with(self, answer: Answer) -> tuple[Answer, ...]:
        return (*self.answers, answer)[-KEPT:]


def decide(command: Command, run: str, epoch: int, unable: Mapping[str, str]) -> Order:
    """Return the order in a command that has no answer yet, or refuse it.

    `unable` has a sentence for each command or setting that has no effect in this run.
    """
    if command.run != run:
        raise Refused("run", f"it is for {command.run}, and this is {run}")
    if command.epoch not in (epoch, ANY_EPOCH):
        raise Refused(EPOCH, f"it is for epoch {command.epoch}, and this is epoch {epoch}")
    order = read(command)
    for name in (order.name, *order.changes):
        if name in unable:
            raise Refused("no effect", unable[name])
    return order


def id_of(command: Command) -> Id:
    """Return the id of a command."""
    return command.actor, command.incarnation, command.sequence
