"""What must be true at every moment, judged from outside: by what was said and what is on disk."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from farflung.common.data.version import Version
from farflung.common.protocol.messages import Ack, Credit

PROMPT_S = 20.0
TURNS, TURN_S, MEMORY_S = (
    5,
    1.0,
    8.0,
)  # so often in turns, so far apart and so lately: two lives of a run that both go on


class Violation(AssertionError):
    """A promise was broken."""


@dataclass(slots=True)
class Item:
    """What stands for a parcel."""

    identity: int
    run: str  # whose weights and spec it was collected under
    rows: int
    size: int
    finite: bool = True
    deliverable: bool = True  # else it is damaged on every way


@dataclass(frozen=True, slots=True)
class Message:
    """What stands for a parcel's message: its bytes, and what a receiver reads from them."""

    frame: bytes
    run: str
    actor: str
    incarnation: int
    sequence: int
    base: int
    item: Item


@dataclass(slots=True)
class Numbers:
    """One life of an actor as its own lines should have it."""

    credit: Credit = field(default_factory=lambda: Credit(1, 1))
    held: dict[int, Item] = field(default_factory=dict)
    frames: dict[int, bytes] = field(default_factory=dict)
    missed: dict[int, float] = field(
        default_factory=dict
    )  # since when a line names it and it was not sent again
    acknowledged: int = 0
    refused: int = 0


class Oracle:
    """Sees every frame, line and write."""

    def __init__(self) -> None:
        self.kept: dict[
            tuple[str, str, int, int], int
        ] = {}  # run, actor, incarnation, sequence -> identity: what is durable
        self.promised: set[tuple[str, str, int, int]] = set()
        self.seen: Counter[str] = Counter()
        self.unanswered = 0
        self.quiet_at = math.inf  # from then on there are no faults any more
        self._identities: set[int] = set()
        self._refused: set[tuple[str, str, int, int]] = set()
        self._lives: dict[tuple[str, int], Numbers] = {}
        self._contents: dict[tuple[str, Version], int] = {}
        self._obeyed: dict[tuple[str, int, str], Version] = {}  # actor, process, run
        self._followed: dict[tuple[str, int, str], int] = {}
        self._places: dict[tuple[str, int, int], tuple[str, int]] = {}
        self._turns: dict[
            tuple[str, str], list[tuple[float, int]]
        ] = {}  # actor and run: when another epoch spoke, and which

    def require(self, truth: bool, promise: str) -> None:
        """Stop at a broken promise."""
        if not truth:
            raise Violation(promise)

    def summary(self) -> Counter[str]:
        """What happened, by name."""
        totals = Counter(
            kept=len(self.kept),
            refused=len(self._refused),
            acknowledged=len(self.promised),
            unanswered=self.unanswered,
        )
        return self.seen + totals

    def leaves(self, message: Message, run: str, now: float) -> None:
        """An actor sent a parcel, at a time when it obeyed a run."""
        self.require(
            not self.contested(message.actor, run, now),
            "while two lives of a run go on, nothing is sent",
        )
        life = self._lives.setdefault((message.actor, message.incarnation), Numbers())
        self.require(message.item.run == message.run == run, "collected for the run it is sent to")
        number = message.sequence
        life.missed.pop(number, None)
        if number in life.frames:
            self.seen["resends"] += 1
            self.require(life.frames[number] == message.frame, "a resend has the same bytes")
            return
        self.require(
            all(other.identity != message.item.identity for other in life.held.values()),
            "an item has one number",
        )
        self.require(
            message.base <= min(life.held, default=number),
            "base is never above a number that is held",
        )
        life.frames[number] = message.frame
        life.held[number] = message.item
        size = sum(len(life.frames[held]) for held in life.held)
        within = len(life.held) <= life.credit.messages and (
            size <= life.credit.size or len(life.held) == 1
        )
        self.require(within and life.credit.size > 0, "a new number stays within the credit")

    def told(self, run: str, actor: str, line: Ack, now: float) -> None:
        """A line is about to be taken by its actor: everything it acknowledges must be durable."""
        life = self._lives.setdefault((actor, line.incarnation), Numbers())
        refused = dict(line.refused)
        for number in [number for number in life.held if number in refused]:
            self.require(
                (run, actor, line.incarnation, number) in self._refused,
                "a refusal that is told is durable",
            )
            life.refused += 1
            del life.held[number]
        for number in [
            number for number in life.held if number <= line.highest and number not in line.missing
        ]:
            key = (run, actor, line.incarnation, number)
            self.require(key in self.kept, "what is acknowledged is kept")
            self.promised.add(key)
            life.acknowledged += 1
            del life.held[number]
        for number in life.held.keys() & set(line.missing):
            waits_s = now - life.missed.setdefault(number, now)
            self.require(
                waits_s < PROMPT_S or now - self.quiet_at < PROMPT_S,
                "what is missing is sent again before long",
            )
        life.credit = line.credit

    def hears(self, actor: str, run: str, epoch: int, now: float) -> None:
        """An actor hears a learner, whether it obeys it or not."""
        turns = self._turns.setdefault((actor, run), [])
        if all(epoch > before for _, before in turns):
            turns.clear()  # started again
        if not turns or (turns[-1][1] != epoch and now - turns[-1][0] >= TURN_S):
            turns.append((now, epoch))

    def fell_silent(self, actor: str) -> None:
        """What the actor heard before says nothing any more: its process, its connection or its run is another one."""
        self._turns = {key: turns for key, turns in self._turns.items() if key[0] != actor}

    def contested(self, actor: str, run: str, now: float) -> bool:
        """Whether two learners of this run go on side by side, as the actor hears them: it must not send to either."""
        return sum(now - at < MEMORY_S for at, _ in self._turns.get((actor, run), ())) >= TURNS

    def taken(self, actor: str, incarnations: list[int], outbox: Any) -> None:
        """The books of an actor's process, whose incarnations are given, must say the same."""
        lives = [
            self._lives.setdefault((actor, incarnation), Numbers()) for incarnation in incarnations
        ]
        while outbox.given_up:
            sequence, reason = outbox.given_up.popleft()
            if reason == "unanswered":
                self.unanswered += 1
                del lives[-1].held[sequence]
        self.require(
            outbox.unacknowledged == len(lives[-1].held),
            "an outbox holds what is not answered, and nothing else",
        )
        counted = (
            outbox.ledger.acknowledged.parcels,
            sum(tally.parcels for tally in outbox.ledger.refused.values()),
        )
        told = sum(life.acknowledged for life in lives), sum(life.refused for life in lives)
        self.require(counted == told, "a ledger counts what was told")

    def writes(self, message: Message) -> None:
        """A learner made a parcel durable, or the refusal of it."""
        key = (message.run, message.actor, message.incarnation, message.sequence)
        self.require(key not in self.kept and key not in self._refused, "a number counts once")
        if not message.item.finite:
            self._refused.add(key)
            return
        self.require(message.item.identity not in self._identities, "nothing is kept twice")
        self.kept[key] = message.item.identity
        self._identities.add(message.item.identity)

    def publishes(self, run: str, version: Version, content: int) -> None:
        """A learner published weights."""
        self.require(
            self._contents.setdefault((run, version), content) == content,
            "one version has one content",
        )

    def follows(self, actor: str, process: int, run: str, epoch: int) -> None:
        """An actor's process obeyed something of an epoch."""
        before = self._followed.get((actor, process, run), 0)
        self.require(before <= epoch, "epochs never go back within a run")
        self._followed[actor, process, run] = epoch

    def obeys(self, actor: str, process: int, run: str, version: Version) -> None:
        """An actor's process swapped weights in."""
        before = self._obeyed.get((actor, process, run))
        self.require(before is None or before <= version, "versions never go back within a run")
        self.require(
            version.epoch >= self._followed.get((actor, process, run), 0),
            "weights of an epoch that is over are not obeyed",
        )
        self._obeyed[actor, process, run] = version

    def placed(self, run: str, actor: str, incarnation: int, index: int, start: int) -> None:
        """An actor was told its place in the seed tree."""
        holder = self._places.setdefault((run, index, start), (actor, incarnation))
        self.require(holder == (actor, incarnation), "no two lives share a place in the seed tree")
