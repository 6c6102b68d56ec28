"""A simulated learner.

The real inbox, snapshots and roster, a disk that outlives it, and the thin link around them.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulation import hostile
from simulation.hostile import CLIENT, Hostile
from simulation.oracle import Message, Violation

from farflung.common.data.spec import Graph, Space, Spec, World
from farflung.common.data.weights import Version
from farflung.common.net.keys import BROKER, Client
from farflung.common.process.errors import Refused
from farflung.common.protocol.messages import (
    Acknowledgement,
    Announcement,
    Beacon,
    Bye,
    Credit,
    Hello,
    Report,
    State,
)

if TYPE_CHECKING:
    from simulation.simulator import Simulation

FARTHEST = (1 << 16) + 4096  # numbers that a sender may have given up: see `Incarnation.believes`
MOST = Credit(64, 10_000)  # that a learner grants


@dataclass
class Disk:
    """The state that survives a learner: checkpoint, journal and the epoch that may write."""

    run: str
    inbox: Any = None
    roster: Any = None
    version: int = 0
    journal: list[Message] = field(default_factory=list)
    owner: int = 0  # the learner that holds the lock


def spec(run: str) -> Spec:
    """As little of a spec as there can be."""
    space = Space("box", "float32", (1,))
    return Spec(
        run,
        "default",
        "async",
        World("Nothing-v0"),
        {"": space},
        space,
        "q",
        1,
        1,
        Graph(b"", (), (), ()),
    )


class SimulatedLearner:
    """One process on a disk. The next one starts from what the disk has."""

    def __init__(self, world: "Simulation", disk: Disk, *, is_copy: bool = False) -> None:
        self.world, self.disk, self.is_copy = world, disk, is_copy
        self.alive = True
        self.learner_id = disk.owner = world.draw()
        if is_copy:
            world.oracle.copies.add(self.learner_id)
        self.received: deque[Any] = deque()
        protocol = world.protocol
        self.inbox = self._restored()
        self.roster = (
            protocol.Roster.restore(disk.roster, world.now) if disk.roster else protocol.Roster()
        )
        self.snapshots = protocol.Snapshots()
        self.acknowledgements = protocol.AcknowledgementSchedule()
        self.allowances = protocol.Allowances(self.inbox)
        self.names = protocol.Names(self._forget, until_share=world.until_share)
        self._is_hostile = False  # of the message that is being read
        self.version = disk.version
        self.spec = spec(disk.run)
        self._unwritten: list[Message] = []
        self._written_at = self._told_at = world.now
        self._replay()
        self._save()
        self._publish()
        self._tick()

    def _restored(self) -> Any:
        protocol, state = self.world.protocol, self.disk.inbox
        try:
            return protocol.Inbox.restore(state) if state else protocol.Inbox()
        except Refused as refusal:
            raise Violation(f"what was saved makes sense: {refusal}") from refusal

    @property
    def newest(self) -> Version:
        """The version last published."""
        return Version(self.inbox.epoch, self.version)

    @property
    def fenced(self) -> bool:
        """A later learner holds the lock: nothing can be written any more."""
        return self.disk.owner != self.learner_id

    def receive(self, message: Any) -> None:
        """Something came: it is read at the next turn."""
        if self.alive:
            self.received.append(message)

    def _replay(self) -> None:
        for message in self.disk.journal:
            if self._admit(message):
                self._settle(message)
                continue
            # This checkpoint has the words of a liar too, which the product's journal does not.
            self.world.oracle.require(
                message.actor in (hostile.NAME, hostile.PRESSING),
                "a checkpoint holds nothing that comes after it",
            )

    def _settle(self, message: Message) -> None:
        self.inbox.commit(message.actor, message.incarnation, message.sequence)
        self.acknowledgements.add_news((message.actor, message.incarnation))

    def _save(self) -> None:
        if not self.fenced:
            self.disk.inbox, self.disk.roster, self.disk.version = (
                self.inbox.state(),
                self.roster.state(),
                self.version,
            )
            self.disk.journal = []

    def _tick(self) -> None:
        if not self.alive:
            return
        chance = self.world.chance
        self.world.schedule.after(chance.uniform(0.03, 0.1), self._tick)
        while self.received:
            self._read_from(self.received.popleft())
        if chance.random() < 0.4:
            self._write()
        if not self.alive:
            return
        self._speak()
        if chance.random() < 0.02:
            self._save()
        self.world.oracle.require(self.inbox.ledger.balanced, "a learner's ledger balances")

    def _read(self, message: Any) -> None:
        now = self.world.now
        match message:
            case ("subscribe", topic):
                self.snapshots.ask(topic)
            case ("unsubscribe", topic):
                self.snapshots.confirm(topic)
            case Message():
                if message.run != self.disk.run:
                    self.inbox.reject("another run")
                else:
                    self._note_name(message)
                    self.acknowledgements.note_message((message.actor, message.incarnation), now)
                    if self._is_granted(message) and self._admit(message):
                        self._take(message)
            case Hello() | Report() | Bye() if message.run == self.disk.run:
                key = message.actor, message.incarnation
                if not isinstance(message, Bye):
                    self._note_name(message)
                if not self.inbox.rebase(*key, message.base):
                    raise Refused("base", "a lie")
                if isinstance(message, Bye):
                    self.names.forget(key)
                    self.roster.leave(*key)
                    self.acknowledgements.forget(key)
                    return
                self.roster.note_message(*key, now)
                self.acknowledgements.note_message(key, now)
                if isinstance(message, Hello):
                    self.acknowledgements.add_news(key)
                    self.snapshots.confirm(
                        f"z/default/{message.actor}/{message.incarnation}/{message.nonce}"
                    )

    def _forget(self, key: tuple[str, int]) -> None:
        self.world.oracle.require(
            not self.world.is_honest(*key), "a name of an honest actor makes no room for others"
        )
        self.acknowledgements.forget(key)
        self.roster.forget(*key)

    def _read_from(self, message: Any) -> None:
        """Read a message, and note who sent it."""
        lost, self._is_hostile = self.inbox.lost, isinstance(message, Hostile)
        try:
            self._read(message.message if isinstance(message, Hostile) else message)
        except Refused as refusal:
            self.world.oracle.require(self._is_hostile, f"an honest word is taken: {refusal}")
            self.world.oracle.seen[f"refused as {refusal.reason}"] += 1
        if self._is_hostile:
            self.world.oracle.lied += self.inbox.lost - lost
        self.world.oracle.require(
            self.inbox.lost - lost <= FARTHEST, "no claim closes more numbers than may be lost"
        )

    def _note_name(self, message: Message | Hello | Report) -> None:
        honest = Client("", BROKER, 1 + sum(message.actor.encode()))
        sender = CLIENT if self._is_hostile else honest
        counters = message.counters if isinstance(message, Report) else {}
        key, longest_step_s = (
            (message.actor, message.incarnation),
            counters.get("longest_step_s", 0),
        )
        self.names.note_message(sender, key, self.world.now, longest_step_s)

    def _take(self, message: Message) -> None:
        """Take a new number: it is to be written."""
        key = message.actor, message.incarnation
        self.allowances.spend(key)
        self._unwritten.append(message)
        self.world.oracle.require(
            self.inbox.pending(*key) <= MOST.messages,
            "what is admitted and not durable stays within the largest credit",
        )

    def _is_granted(self, message: Message) -> bool:
        """Return whether a message may be looked at: a repetition, or within the credit.

        A fenced learner makes nothing durable, so it grants nothing again: what is sent to it by
        the credit of its successor can exceed its own. So can what is sent by the credit of a copy
        of a run to its original, or the other way. It stays missing, and heals.
        """
        key = message.actor, message.incarnation
        if self.inbox.has(*key, message.sequence):
            return True
        granted: bool = self.allowances.covers(key)
        self.world.oracle.seen["credit ignored"] += not granted
        elsewhere = self.fenced or bool(self.world.oracle.copies)
        self.world.oracle.require(
            granted or self._is_hostile or elsewhere,
            "an honest number within its credit is admitted",
        )
        if not granted:
            if self.allowances.exceed(key, self.world.now):
                self.names.withdraw(key)
            self.inbox.reject("credit")
        return granted

    def _admit(self, message: Message) -> bool:
        key = message.actor, message.incarnation
        number = *key, message.sequence
        live, retired = self.inbox.incarnations
        admission = self.inbox.admit(*number, message.base)
        self.world.oracle.seen[admission.value] += not self._is_hostile
        if self.inbox.incarnations == (live, retired):
            self.world.oracle.seen["back from retirement"] += retired > 0
        if admission.value == "duplicate":
            self.acknowledgements.add_news(key)
        self.world.oracle.require(
            admission.value != "beyond" or self._is_hostile, "an honest number is within reach"
        )
        new: bool = admission.value == "new"
        if new and not message.item.finite:
            self.inbox.refuse(*number, "not finite")
        elif new and self.names.note_parcel(key, message.item.rows):
            self.roster.note_message(*key, self.world.now, has_parcels=True)
        return new

    def _write(self) -> None:
        if self.fenced:
            return
        batch, self._unwritten = self._unwritten, []
        for message in batch:
            self.disk.journal.append(message)
            if self.is_copy:
                self.world.oracle.copy_writes(message, self.learner_id)
                continue
            self.world.oracle.writes(message, self.world.now)
            if (
                self.world.faulty and self.world.chance.random() < 0.002
            ):  # durable, but nobody was told
                self._unwritten = []
                self.world.kill_learner(self)
                return
        for message in batch:
            self._settle(message)

    def _speak(self) -> None:
        now = self.world.now
        if self.world.publishes():
            self.version += 1
            self._publish()
        topic = self.snapshots.next(now)
        if topic:
            self._answer(topic)
        run, policy = self.disk.run, "default"
        if now - self._told_at >= 1:
            self._told_at = now
            beacon = Beacon(run, policy, self.learner_id, self.newest, 0, 0, State.RUN)
            self.world.down(self, beacon)
        origin = self.learner_id, self.inbox.epoch
        for key, credit in self.acknowledgements.due(now, self._credit, self.names.has_share):
            self.allowances.grant(key, credit.messages)
            numbers = *self.inbox.received(*key), credit
            self.world.down(self, Acknowledgement(run, policy, *key, *origin, *numbers), key[0])

    def _credit(self, key: tuple[str, int]) -> Credit:
        """Return the credit of a name: one message until it has a share, as of a learner."""
        credit = self.world.credit
        if self.allowances.withholds(key, self.world.now):
            return Credit(0, 0)
        return credit if self.names.has_share(key) else Credit(min(1, credit.messages), credit.size)

    def _publish(self) -> None:
        self.world.oracle.publishes(
            self.disk.run, self.newest, self.world.draw(), is_copy=self.is_copy
        )
        self.world.down(self, (0, self.disk.run, self.newest))

    def _answer(self, topic: str) -> None:
        _, _, actor, incarnation, nonce = topic.split("/")
        member = self.roster.join(actor, int(incarnation), self.world.now)
        if self.fenced:
            return  # a place that is not durable must not be told
        self.disk.roster = self.roster.state()
        announcement = Announcement(
            self.spec, self.learner_id, self.inbox.epoch, member.index, member.start
        )
        self.world.down(self, (int(nonce), announcement), actor)
        self.world.down(self, (int(nonce), self.disk.run, self.newest), actor)
