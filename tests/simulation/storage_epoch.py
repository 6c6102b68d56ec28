"""Users of the simulated disk: one epoch of a learner with real storage, and real outboxes."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from farflung.common.data.parcel import Parcel
from farflung.common.data.weights import Version
from farflung.common.protocol import wire
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.outbox import Outbox
from farflung.learner.endpoint.items import Item, RefusedNumber, Settlements
from farflung.learner.storage import checkpoint, manifest, recover
from farflung.learner.storage.checkpoint import Checkpoint
from farflung.learner.storage.journal import record as record_module
from farflung.learner.storage.journal import segments
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.record import Position
from farflung.learner.storage.journal.totals import JournalTotals
from farflung.learner.storage.manifest import POSITION, REPLAY_FROM, needed_from
from farflung.learner.storage.replay_extent import ReplayExtent, journal_facts

if TYPE_CHECKING:
    from simulation.storage import Storage

REPLAY = 25  # rows that the replay holds
SEGMENT_BYTES = 2000
Number = tuple[str, int, int]  # actor, incarnation, sequence


def number_of(envelope: wire.Envelope) -> Number:
    """Return what identifies a parcel."""
    return envelope.actor, envelope.incarnation, envelope.sequence


class IdleThread:
    """A thread that does nothing: the simulation takes its turns."""

    def __init__(self, **_: Any) -> None: ...

    def start(self) -> None: ...

    def join(self, timeout: float) -> None: ...

    def is_alive(self) -> bool:
        return False


class Sender:
    """One incarnation of an actor: a real outbox."""

    def __init__(self, world: "Storage", name: str) -> None:
        self.name = name
        self._world = world
        self.outbox: Outbox[Parcel] = Outbox(
            self._encode, incarnation=world.chance.getrandbits(52), capacity=10**6
        )
        self.outbox.before_release = self._released

    def _encode(self, parcel: Parcel, incarnation: int, sequence: int, base: int) -> bytearray:
        spec = self._world.spec
        return self._world.format.encode(
            wire.Envelope(
                spec.run,
                spec.policy,
                self.name,
                incarnation,
                sequence,
                base,
                Version(1, 1),
                spec.schema,
            ),
            parcel,
        )

    def _released(self, sequence: int, frame: Any) -> None:
        self._world.promised[self.name, self.outbox.incarnation, sequence] = wire.checksum(frame)


class LearnerEpoch:
    """One start of the learner."""

    def __init__(self, world: "Storage") -> None:
        self.world = world
        run = world.run
        recovered = (
            recover.recover(run, durable=world.durable)
            if segments.numbers(run.folder / segments.FOLDER)
            else None
        )
        self.inbox = Inbox() if recovered is None else recovered.inbox
        self.extent = ReplayExtent()
        self._settlements = Settlements()
        self._numbers: dict[int, Number] = {}  # of the parcels that the journal has
        totals = JournalTotals(run.identity) if recovered is None else recovered.totals
        if recovered is not None:
            world.check(self.inbox)
            self._rebuild()
        self.journal = Journal(
            run.folder,
            totals,
            self.inbox.epoch,
            self._deliver,
            durable=world.durable,
            keep=world.keep,
            disk=world.disk,
            segment_bytes=SEGMENT_BYTES,
        )
        world.require(self.inbox.epoch > world.epoch, "an epoch is used once")
        world.epoch = self.inbox.epoch

    def receive(self, frame: Any) -> None:
        """Receive a parcel as the receiver does."""
        opened = wire.open_frame(frame)
        envelope = wire.read_envelope(opened)
        number = number_of(envelope)
        if self.inbox.admit(*number, envelope.base).value != "new":
            return
        if self.world.chance.random() < 0.1:
            self.inbox.refuse(*number, "shape")
            self.journal.append([Item(envelope, RefusedNumber("shape"), frame, self._settlements)])
        else:
            parcel = self.world.format.decode(opened, envelope)
            self._numbers[id(parcel)] = number
            self.journal.append([Item(envelope, parcel, frame, self._settlements)])

    def turn(self) -> None:
        """Do one turn of the journal's thread, and settle as the network thread does."""
        try:
            self.journal._turn()
        finally:
            for envelope, _ in self._settlements.take():
                self.inbox.commit(envelope.actor, envelope.incarnation, envelope.sequence)

    def save(self) -> None:
        """Write a checkpoint, and let go of unneeded segments."""
        size = min(REPLAY, sum(rows for _, rows in self.world.inserted))
        facts = {"steps": 1, **journal_facts(self.journal, self.extent, size)}
        self.journal.sync_to(facts[POSITION][0])
        name = checkpoint.save(
            self.world.run.folder, Checkpoint({"weight": torch.zeros(2)}, facts)
        ).name
        self.world.saved[name] = [number for number, _ in self.world.newest()]
        self.journal.forget_before(needed_from(self.world.run.folder))

    def _deliver(self, items: list[Item[Parcel]]) -> None:
        for item in items:
            assert item.end is not None
            self.extent.inserted(item.content.rows, item.end)
            number = self._numbers.pop(id(item.content))
            self.world.inserted.append((number, item.content.rows))

    def _rebuild(self) -> None:
        """Make the replay again, as the newest checkpoint says."""
        self.world.inserted = []
        kept = manifest.kept(self.world.run.folder)
        first = manifest.facts(self.world.run.folder, kept[-1])[REPLAY_FROM] if kept else 0
        digest: Counter[int] = Counter()
        for number, envelope, rows, record in self.world.messages(first):
            digest[number] = record_module.chained(digest[number], record.payload)
            self.extent.inserted(rows, Position(number, record.end, digest[number]))
            self.world.inserted.append((number_of(envelope), rows))
