"""The numbers that a learner received: each counts once, and is acknowledged when it is durable."""

from collections import OrderedDict
from enum import Enum
from typing import TypedDict

from farflung.common.protocol.incarnation import WINDOW, Incarnation, Received
from farflung.common.protocol.ledger import Intake
from farflung.common.protocol.retired import RetiredIncarnations, RetiredState

LIVE = 4096  # incarnations kept in full, those seen last: some 1 KB each; the others are retired
OUT_OF_RANGE = "number out of range"


class Admission(Enum):
    """An inbox's answer to a number."""

    NEW = "new"
    DUPLICATE = "duplicate"
    BEYOND = "beyond"  # not a number that an honest actor could send; not recorded


class IncarnationState(TypedDict):
    """One live incarnation as a checkpoint keeps it."""

    actor: str
    incarnation: int
    base: int
    contiguous: int
    out_of_order: list[int]
    refused: list[tuple[int, str]]


class InboxState(TypedDict):
    """The durable part of an inbox, as a checkpoint keeps it: plain data, for msgpack."""

    epoch: int
    lost: int
    received: int
    accepted: int
    duplicate: int
    refused: dict[str, int]
    live: list[IncarnationState]  # the one seen last at the end
    retired: RetiredState


class Inbox:
    """The numbers of one policy: each number of each incarnation of each actor counts once.

    Nothing is forgotten within a run, and no incarnation is refused for the number of them.
    """

    def __init__(self, epoch: int = 1) -> None:
        self.epoch = epoch  # how often the learner of this run was started
        self.ledger = Intake()
        # Numbers that their actors hold no longer, by their own word, and that never arrived.
        self.lost = 0
        self._live: OrderedDict[tuple[str, int], Incarnation] = OrderedDict()
        self._retired = RetiredIncarnations()

    @property
    def incarnations(self) -> tuple[int, int]:
        """The counts of live and of retired incarnations."""
        return len(self._live), len(self._retired)

    def admit(self, actor: str, incarnation: int, sequence: int, base: int) -> Admission:
        """Return whether a number is new.

        A new one is pending: commit it once it is durable, with its rows or as refused.
        """
        known = self._know(actor, incarnation)
        self.ledger.received += 1
        # The journal has the numbers without the words between them: it must come to the same.
        if not (1 <= base <= sequence < base + WINDOW and known.believes(base)):
            self.ledger.refuse(OUT_OF_RANGE)
            return Admission.BEYOND
        self.lost += known.rebase(base)
        if known.has(sequence):
            self.ledger.duplicate += 1
            return Admission.DUPLICATE
        self.ledger.accepted += 1
        known.pending[sequence] = ""
        return Admission.NEW

    def refuse(self, actor: str, incarnation: int, sequence: int, reason: str) -> None:
        """Refuse a pending number.

        From its commit on it is reported with its reason, until the actor's base has passed it.
        """
        self._live[actor, incarnation].pending[sequence] = reason
        self.ledger.accepted -= 1
        self.ledger.refuse(reason)

    def reject(self, reason: str) -> None:
        """Count a message without a number of this run: damaged, foreign, of another run."""
        self.ledger.received += 1
        self.ledger.refuse(reason)

    def commit(self, actor: str, incarnation: int, sequence: int) -> None:
        """Count a pending number as durable: from now on it may be acknowledged."""
        self._live[actor, incarnation].commit(sequence)

    def rebase(self, actor: str, incarnation: int, base: int) -> bool:
        """Take the lowest number that an actor still holds from a hello, report or bye.

        Only a numbered message can close a hole above all that was received. Return False if no
        honest actor says this.
        """
        found = self._find(actor, incarnation)
        if found is None:
            return Incarnation().believes(base)  # there is nothing to forget
        if not found.believes(base):
            return False
        if base > found.base:
            self.lost += self._know(actor, incarnation).rebase(min(base, found.highest + 1))
        return True

    def received(self, actor: str, incarnation: int) -> Received:
        """Return the numbers of an incarnation that may be acknowledged."""
        found = self._find(actor, incarnation)
        return Received(0) if found is None else found.received()

    def has(self, actor: str, incarnation: int, sequence: int) -> bool:
        """Return whether a number was received before; change nothing."""
        found = self._find(actor, incarnation)
        return found is not None and found.has(sequence)

    def knows(self, actor: str, incarnation: int) -> bool:
        """Return whether any number of an incarnation was received."""
        found = self._find(actor, incarnation)
        return found is not None and found.highest > 0

    def pending(self, actor: str, incarnation: int) -> int:
        """Return how many numbers of an incarnation are not durable yet."""
        found = self._live.get((actor, incarnation))
        return 0 if found is None else len(found.pending)

    @property
    def unsettled(self) -> int:
        """The numbers that were accepted and are pending."""
        return sum(
            1 for known in self._live.values() for reason in known.pending.values() if not reason
        )

    def state(self) -> InboxState:
        """Return what must survive this process, without what is pending: its sender holds it."""
        pending = [reason for known in self._live.values() for reason in known.pending.values()]
        return InboxState(
            epoch=self.epoch,
            lost=self.lost,
            received=self.ledger.received - len(pending),
            accepted=self.ledger.accepted - pending.count(""),
            duplicate=self.ledger.duplicate,
            refused={
                reason: count - pending.count(reason)
                for reason, count in self.ledger.refused.items()
            },
            live=[_state(*key, known) for key, known in self._live.items() if not known.is_blank],
            retired=self._retired.state(),
        )

    @classmethod
    def restore(cls, state: InboxState) -> "Inbox":
        """Return the inbox of the run's next epoch, which must be durable before it is published.

        Raise `Refused` if the state makes no sense.
        """
        inbox = cls(state["epoch"] + 1)
        inbox.lost = state["lost"]
        inbox.ledger = Intake(
            state["received"], state["accepted"], state["duplicate"], dict(state["refused"])
        )
        for one in state["live"]:
            inbox._live[one["actor"], one["incarnation"]] = Incarnation(
                one["base"],
                one["contiguous"],
                set(one["out_of_order"]),
                refused=dict(one["refused"]),
            )
        inbox._retired = RetiredIncarnations.restore(state["retired"])
        return inbox

    def _find(self, actor: str, incarnation: int) -> Incarnation | None:
        """Return the numbers of an incarnation that sent some, and change nothing."""
        return self._live.get((actor, incarnation)) or self._retired.find(actor, incarnation)

    def _know(self, actor: str, incarnation: int) -> Incarnation:
        """Return a live incarnation: the newest of them from now on."""
        key = actor, incarnation
        known = self._live.get(key)
        if known is not None:
            self._live.move_to_end(key)
            return known
        self._retire()
        known = self._live[key] = self._retired.take(*key) or Incarnation()
        return known

    def _retire(self) -> None:
        """Make room for one more: at most two steps, since what is pending stays live."""
        for _ in range(2):
            if len(self._live) < LIVE:
                return
            key, known = next(iter(self._live.items()))
            if known.pending:
                self._live.move_to_end(key)
            else:
                del self._live[key]
                self._retired.add(*key, known)


def _state(actor: str, incarnation: int, known: Incarnation) -> IncarnationState:
    return IncarnationState(
        actor=actor,
        incarnation=incarnation,
        base=known.base,
        contiguous=known.contiguous,
        out_of_order=sorted(known.out_of_order),
        refused=sorted(known.refused.items()),
    )
