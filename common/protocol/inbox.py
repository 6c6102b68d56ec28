"""What a learner received: each number of each life of each actor counts once, and is acknowledged when it is durable."""

from collections.abc import Callable
from enum import Enum
from typing import TypedDict

from farflung.common.protocol.incarnation import WINDOW, Incarnation
from farflung.common.protocol.ledger import Intake
from farflung.common.protocol.messages import Ack, Credit

LATELY_S = 30.0  # a life heard within it has its line in the beacon

LIVES = 1 << 16  # with anything to remember, which is never forgotten: some 60 MB of them
OUT_OF_RANGE = "number out of range"
TOO_MANY = "too many lives"


class Admission(Enum):
    """What an inbox says of a number."""

    NEW = "new"
    DUPLICATE = "duplicate"
    BEYOND = "beyond"  # not a number that an honest actor could send; not recorded


class IncarnationState(TypedDict):
    """One life as a checkpoint keeps it."""

    actor: str
    incarnation: int
    base: int
    kept: int
    beyond: list[int]
    refused: list[tuple[int, str]]


class InboxState(TypedDict):
    """An inbox as a checkpoint keeps it: only what is durable. Plain data, for msgpack or JSON."""

    epoch: int
    lost: int
    received: int
    accepted: int
    duplicate: int
    refused: dict[str, int]
    lives: list[IncarnationState]


class Inbox:
    """What a learner received for one policy: each number of each life of each actor counts once. Nothing is forgotten within a run.

    There is room for so many lives; one more that sends parcels is refused. One that only ever said hello takes no room.
    """

    def __init__(self, epoch: int = 1) -> None:
        self.epoch = epoch  # which start of the learner within the run this is
        self.ledger = Intake()
        self.lost = 0  # numbers that an actor no longer holds and that never arrived: a breach, to be reported
        self._lives: dict[
            tuple[str, int], Incarnation
        ] = {}  # those of which anything must be remembered
        self._heard: dict[
            tuple[str, int], Incarnation
        ] = {}  # those heard lately, the latest at the end: they have their lines in the beacon

    def admit(
        self, actor: str, incarnation: int, sequence: int, base: int, now: float
    ) -> Admission:
        """Whether a number is new. If so it is pending: it must be committed, after it was refused or kept durably."""
        life = self._hear(actor, incarnation, now)
        self.ledger.received += 1
        if not self._remembers((actor, incarnation), life):
            self.ledger.refuse(TOO_MANY)
            return Admission.BEYOND
        if 1 <= base <= sequence and base > life.base:
            self.lost += life.rebase(base)
        if life.has(sequence):
            self.ledger.duplicate += 1
            life.told = None  # the actor does not know yet
            return Admission.DUPLICATE
        if not life.kept < sequence <= life.kept + WINDOW or base > sequence:
            self.ledger.refuse(OUT_OF_RANGE)
            return Admission.BEYOND
        self.ledger.accepted += 1
        life.pending[sequence] = ""
        return Admission.NEW

    def refuse(self, actor: str, incarnation: int, sequence: int, reason: str) -> None:
        """An admitted number is not taken. It is told with its reason from its commit until the actor's base has passed it."""
        self._lives[actor, incarnation].pending[sequence] = reason
        self.ledger.accepted -= 1
        self.ledger.refuse(reason)

    def reject(self, reason: str) -> None:
        """Count a message that does not even name a number of ours: damaged, foreign, of another run."""
        self.ledger.received += 1
        self.ledger.refuse(reason)

    def commit(self, actor: str, incarnation: int, sequence: int) -> None:
        """An admitted number is durable, with its rows or with its refusal: from now on it may be acknowledged."""
        self._lives[actor, incarnation].commit(sequence)

    def rebase(self, actor: str, incarnation: int, base: int, now: float) -> None:
        """A hello, report or bye says where the actor's unacknowledged numbers begin."""
        life = self._hear(actor, incarnation, now)
        life.told = None
        if base > life.base and self._remembers((actor, incarnation), life):
            self.lost += life.rebase(base)

    def lines(
        self, now: float, credit: Callable[[str, int], Credit], *, everyone: bool = False
    ) -> tuple[Ack, ...]:
        """The beacon's lines: for each life heard lately of which there is something new to tell, or for all of them."""
        self._heard = {
            key: life for key, life in self._heard.items() if now - life.heard_at <= LATELY_S
        }
        lines = []
        for (actor, incarnation), life in self._heard.items():
            granted = credit(actor, incarnation)
            if everyone or granted != life.told:
                life.told = granted
                lines.append(life.line(actor, incarnation, granted))
        return tuple(lines)

    def state(self) -> InboxState:
        """What must survive this process. What is pending is not part of it: its sender still holds it."""
        pending = [reason for life in self._lives.values() for reason in life.pending.values()]
        lives = [
            IncarnationState(
                actor=actor,
                incarnation=incarnation,
                base=life.base,
                kept=life.kept,
                beyond=sorted(life.beyond),
                refused=sorted(life.refused.items()),
            )
            for (actor, incarnation), life in self._lives.items()
        ]
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
            lives=lives,
        )

    @classmethod
    def restore(cls, state: InboxState) -> "Inbox":
        """The inbox of the next start within the same run: its epoch is one higher, and must be durable before anybody is told."""
        inbox = cls(state["epoch"] + 1)
        inbox.lost = state["lost"]
        inbox.ledger = Intake(
            state["received"], state["accepted"], state["duplicate"], dict(state["refused"])
        )
        for life in state["lives"]:
            key = life["actor"], life["incarnation"]
            inbox._lives[key] = Incarnation(
                life["base"], life["kept"], set(life["beyond"]), refused=dict(life["refused"])
            )
        return inbox

    def _hear(self, actor: str, incarnation: int, now: float) -> Incarnation:
        key = actor, incarnation
        life = self._lives.get(key)
        if life is None:
            life = self._heard.get(key) or Incarnation()
        life.heard_at = now
        self._heard.pop(key, None)
        self._heard[key] = life
        if len(self._heard) > LIVES:
            del self._heard[next(iter(self._heard))]  # its line comes when it is heard again
        return life

    def _remembers(self, key: tuple[str, int], life: Incarnation) -> bool:
        """Whether this life is among those never forgotten: from now on, if there is room."""
        if key not in self._lives and len(self._lives) >= LIVES:
            return False
        self._lives[key] = life
        return True
