"""The promises that hold at every moment, judged from frames, acknowledgements and the disk."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from farflung.common.data.weights import Version
from farflung.common.protocol.messages import Acknowledgement, Credit

PROMPT_S = 20.0
REPEATED_S = 1.6  # between two acknowledgements: a second, half of one, and the turns of both
AWAKE_S = 24.0  # after the last fault no actor sleeps, and no late message is on its way
NEWS_S = 0.7  # from a write, or from another credit, to the actor: the turns of both and the way
TURNS, TURN_S, MEMORY_S = (
    5,
    1.0,
    8.0,
)  # so often in turns, so far apart and so lately: two learners of a run that both go on


class Violation(AssertionError):
    """A promise was broken."""


@dataclass(slots=True)
class Item:
    """A stand-in for a parcel."""

    identity: int
    run: str  # whose weights and spec it was collected under
    rows: int
    size: int
    finite: bool = True
    deliverable: bool = True  # else it is damaged on every way


@dataclass(frozen=True, slots=True)
class Message:
    """A stand-in for a parcel's message: its bytes, and the fields that a receiver reads."""

    frame: bytes
    run: str
    actor: str
    incarnation: int
    sequence: int
    base: int
    item: Item


@dataclass(slots=True)
class Numbers:
    """One incarnation of an actor as its acknowledgements should have it."""

    credit: Credit = field(default_factory=lambda: Credit(1, 1))
    held: dict[int, Item] = field(default_factory=dict)
    frames: dict[int, bytes] = field(default_factory=dict)
    missed: dict[int, float] = field(
        default_factory=dict
    )  # since when it is named and was not sent again
    acknowledged: int = 0
    refused: int = 0
    told: tuple[int, int] = 0, 0  # the learner, and the highest number, of the newest of them

    def grant(self, told: Acknowledgement) -> None:
        """Take the credit of an acknowledgement, unless a newer one of its learner overtook it."""
        highest = min(told.highest, max(self.frames, default=0))
        if told.learner_id != self.told[0] or highest >= self.told[1]:
            self.told, self.credit = (told.learner_id, highest), told.credit


class Oracle:
    """Sees every frame, acknowledgement and write."""

    def __init__(self) -> None:
        self.kept: dict[
            tuple[str, str, int, int], int
        ] = {}  # run, actor, incarnation, sequence -> identity: what is durable
        self.promised: set[tuple[str, str, int, int]] = set()
        self.seen: Counter[str] = Counter()
        self.unanswered = 0
        self.lied = 0  # numbers that a hostile sender claims to hold no longer
        self.credit_at = math.inf  # the time when the learner's credit changed for the last time
        self.quiet_at = math.inf  # from then on there are no faults any more
        self._identities: set[int] = set()
        self._refused: set[tuple[str, str, int, int]] = set()
        self._numbers: dict[tuple[str, int], Numbers] = {}
        self._contents: dict[tuple[str, Version], int] = {}
        self._obeyed: dict[tuple[str, int, str], Version] = {}  # actor, process, run
        self._followed: dict[tuple[str, int, str], int] = {}
        self._written_at: dict[tuple[str, str, int, int], float] = {}
        self._granted: set[str] = set()  # actors that know the last credit
        self._told_at: dict[tuple[str, int], float] = {}  # actor and learner
        self._places: dict[tuple[str, int, int], tuple[str, int]] = {}
        self.copies: set[int] = set()  # learners in a copy of the run's disk
        self.copied: set[tuple[str, str, int, int]] = set()  # acknowledged by a copy
        # By process, run and epoch: when each learner was heard last, and the one that keeps
        # something of it.
        self._lives: dict[tuple[int, str, int], dict[int, float]] = {}
        self._shared: set[tuple[int, str, int]] = set()  # epochs of two learners
        self._copy_wrote: set[tuple[int, str, int, int]] = set()
        self._doubtful: set[tuple[str, Version]] = set()  # versions that a copy published
        self._keepers: dict[tuple[int, str, int], int] = {}
        self._turns: dict[
            tuple[str, str], list[tuple[float, int]]
        ] = {}  # actor and run: when another epoch spoke, and which

    def require(self, truth: bool, promise: str) -> None:
        """Stop at a broken promise."""
        if not truth:
            raise Violation(promise)

    def summary(self) -> Counter[str]:
        """Return the counts of all events by name."""
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
            "while two learners of a run go on, nothing is sent",
        )
        numbers = self._numbers.setdefault((message.actor, message.incarnation), Numbers())
        self.require(message.item.run == message.run == run, "collected for the run it is sent to")
        number = message.sequence
        numbers.missed.pop(number, None)
        if number in numbers.frames:
            self.seen["resends"] += 1
            self.require(numbers.frames[number] == message.frame, "a resend has the same bytes")
            return
        self.require(
            all(other.identity != message.item.identity for other in numbers.held.values()),
            "an item has one number",
        )
        self.require(
            message.base <= min(numbers.held, default=number),
            "base is never above a number that is held",
        )
        numbers.frames[number] = message.frame
        numbers.held[number] = message.item
        size = sum(len(numbers.frames[held]) for held in numbers.held)
        within = len(numbers.held) <= numbers.credit.messages and (
            size <= numbers.credit.size or len(numbers.held) == 1
        )
        self.require(within and numbers.credit.size > 0, "a new number stays within the credit")

    def hears_life(self, process: int, run: str, epoch: int, learner_id: int, now: float) -> None:
        """An actor's process hears a learner, whether it obeys it or not."""
        lives = self._lives.setdefault((process, run, epoch), {})
        lives[learner_id] = now
        if len(lives) > 1:
            self._shared.add((process, run, epoch))

    def begins(self, process: int, run: str) -> None:
        """An actor's process begins to obey a run, as one that starts: it knows no learner."""
        self._lives = {
            key: lives for key, lives in self._lives.items() if key[:2] != (process, run)
        }

    def sends(self, process: int, run: str, epoch: int, now: float) -> None:
        """An actor's process sends to the learner that it obeys."""
        heard = self._lives.get((process, run, epoch), {}).values()
        self.require(
            sum(now - at < MEMORY_S for at in heard) < 2,
            "while two learners of an epoch go on, nothing is sent",
        )

    def _copies_tell(self, process: int, told: Acknowledgement) -> None:
        """A copy acknowledges: only an actor that knows no other learner of its epoch obeys it.

        Such an actor cannot know that this is a copy. What the copy took, the original never gets.
        """
        key = process, told.run, told.epoch
        self.seen["acknowledged by a copy"] += 1
        numbers = self._numbers[told.actor, told.incarnation]
        covered = [n for n in numbers.held if n <= told.highest and n not in told.missing]
        self.require(
            not covered or self._keepers.setdefault(key, told.learner_id) == told.learner_id,
            "a copy takes nothing from an actor that its original acknowledged",
        )
        for number in covered:
            self.copied.add((told.run, told.actor, told.incarnation, number))
            numbers.acknowledged += number not in dict(told.refused)
            numbers.refused += number in dict(told.refused)
            del numbers.held[number]
        numbers.grant(told)

    def told(self, process: int, told: Acknowledgement, now: float) -> None:
        """Check an acknowledgement that its actor obeys: all that it covers must be durable."""
        run, actor = told.run, told.actor
        self.require(
            told.epoch == self._followed.get((actor, process, run)),
            "acknowledgements are obeyed from the learner that is followed",
        )
        self._require_prompt(actor, told.learner_id, now)
        numbers = self._numbers.setdefault((actor, told.incarnation), Numbers())
        if told.learner_id in self.copies:
            self._copies_tell(process, told)
            return
        refused = dict(told.refused)
        for number in [number for number in numbers.held if number in refused]:
            self.require(
                (run, actor, told.incarnation, number) in self._refused,
                "a refusal that is told is durable",
            )
            numbers.refused += 1
            del numbers.held[number]
        for number in [
            number
            for number in numbers.held
            if number <= told.highest and number not in told.missing
        ]:
            key = (run, actor, told.incarnation, number)
            self.require(key in self.kept, "what is acknowledged is kept")
            self.promised.add(key)
            self._keepers[process, run, told.epoch] = told.learner_id
            self._require_news(self._written_at.get(key, now), now)
            numbers.acknowledged += 1
            del numbers.held[number]
        for number in numbers.held.keys() & set(told.missing):
            waits_s = now - numbers.missed.setdefault(number, now)
            self.require(
                waits_s < PROMPT_S or now - self.quiet_at < PROMPT_S,
                "what is missing is sent again before long",
            )
        numbers.grant(told)
        if actor not in self._granted and now > self.credit_at:
            self._granted.add(actor)
            self._require_news(self.credit_at, now)

    def _require_prompt(self, actor: str, learner_id: int, now: float) -> None:
        """Require an acknowledgement about every second where there are no faults."""
        before = max(self._told_at.get((actor, learner_id), now), self.quiet_at + AWAKE_S)
        self._told_at[actor, learner_id] = now
        self.require(now - before < REPEATED_S, "each actor is acknowledged every second")

    def _require_news(self, since: float, now: float) -> None:
        """Require that news does not wait for the next repetition where there are no faults."""
        prompt = now - since < NEWS_S or since < self.quiet_at + AWAKE_S
        self.require(prompt, "news reaches its actor at once")

    def hears(self, actor: str, run: str, epoch: int, now: float) -> None:
        """An actor hears a learner, whether it obeys it or not."""
        turns = self._turns.setdefault((actor, run), [])
        if all(epoch > before for _, before in turns):
            turns.clear()  # started again
        if not turns or (turns[-1][1] != epoch and now - turns[-1][0] >= TURN_S):
            turns.append((now, epoch))

    def fell_silent(self, actor: str) -> None:
        """Forget the messages that the actor received before.

        Its process, its connection or its run is another one.
        """
        self._told_at = {key: at for key, at in self._told_at.items() if key[0] != actor}
        self._turns = {key: turns for key, turns in self._turns.items() if key[0] != actor}

    def contested(self, actor: str, run: str, now: float) -> bool:
        """Return whether the actor receives two learners of this run that alternate.

        It must not send to either.
        """
        return sum(now - at < MEMORY_S for at, _ in self._turns.get((actor, run), ())) >= TURNS

    def taken(self, actor: str, incarnations: list[int], outbox: Any) -> None:
        """Require that the ledger of an actor's process, with these incarnations, agrees."""
        own = [
            self._numbers.setdefault((actor, incarnation), Numbers())
            for incarnation in incarnations
        ]
        while outbox.given_up:
            sequence, reason = outbox.given_up.popleft()
            if reason == "unanswered":
                self.unanswered += 1
                del own[-1].held[sequence]
        self.require(
            outbox.unacknowledged == len(own[-1].held),
            "an outbox holds what is not answered, and nothing else",
        )
        counted = (
            outbox.ledger.acknowledged.parcels,
            sum(tally.parcels for tally in outbox.ledger.refused.values()),
        )
        told = (
            sum(numbers.acknowledged for numbers in own),
            sum(numbers.refused for numbers in own),
        )
        self.require(counted == told, "a ledger counts what was told")

    def writes(self, message: Message, now: float) -> None:
        """A learner made a parcel durable, or the refusal of it."""
        key = (message.run, message.actor, message.incarnation, message.sequence)
        self.require(key not in self.kept and key not in self._refused, "a number counts once")
        if not message.item.finite:
            self._refused.add(key)
            return
        self.require(message.item.identity not in self._identities, "nothing is kept twice")
        self.kept[key] = message.item.identity
        self._written_at[key] = now
        self._identities.add(message.item.identity)

    def copy_writes(self, message: Message, learner_id: int) -> None:
        """A copy made a parcel durable, in a journal of its own."""
        key = (learner_id, message.actor, message.incarnation, message.sequence)
        self.require(key not in self._copy_wrote, "a number counts once")
        self._copy_wrote.add(key)

    def publishes(self, run: str, version: Version, content: int, *, is_copy: bool) -> None:
        """A learner published weights; a copy has versions of its own."""
        if is_copy:
            self._doubtful.add((run, version))
            return
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
        if (run, version) in self._doubtful:
            self._shared.add((process, run, version.epoch))
        if before is not None and (process, run, version.epoch) in self._shared:
            before = min(before, Version(version.epoch, 0))  # a copy has versions of its own
        self.require(before is None or before <= version, "versions never go back within a run")
        self.require(
            version.epoch >= self._followed.get((actor, process, run), 0),
            "weights of an epoch that is over are not obeyed",
        )
        self._obeyed[actor, process, run] = version

    def placed(self, run: str, actor: str, incarnation: int, index: int, start: int) -> None:
        """An actor was told its place in the seed tree."""
        holder = self._places.setdefault((run, index, start), (actor, incarnation))
        self.require(
            holder == (actor, incarnation), "no two incarnations share a place in the seed tree"
        )
