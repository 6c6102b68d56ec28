"""A learner's storage on a disk that fails: acknowledged parcels must be there after every fault.

Real are outbox, inbox, journal, recovery, checkpoints and retention. Simulated are the disk, time,
and the way between outbox and inbox.
"""

import logging
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from types import SimpleNamespace
from unittest.mock import patch

from simulation.disk import Death, SimulatedDisk, installed
from simulation.oracle import Violation
from simulation.storage_epoch import REPLAY, IdleThread, LearnerEpoch, Number, Sender, number_of
from support.makers import a_parcel, a_spec

from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol import inbox as inbox_module
from farflung.common.protocol import wire
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.messages import Acknowledgement, Credit
from farflung.common.protocol.outbox import Frame
from farflung.common.protocol.parcels import ParcelCodec
from farflung.learner.storage import checkpoint, manifest
from farflung.learner.storage.audit import Audit
from farflung.learner.storage.journal import journal, payloads, segments
from farflung.learner.storage.journal import record as record_module
from farflung.learner.storage.journal.record import Kind, Position, Record
from farflung.learner.storage.manifest import POSITION, REPLAY_FROM
from farflung.learner.storage.run_folder import Run

STEPS = 60
LIVE = 2  # incarnations that an inbox keeps in full
MEMORY = Path("/dev/shm")


class Storage:
    """The world of one seed."""

    def __init__(self, seed: int, place: Path) -> None:
        self.chance = Random(seed)
        self.durable, self.keep = seed % 3 != 0, seed % 2 == 0
        self.spec = a_spec()
        self.format = ParcelCodec(self.spec)
        self.run = Run("one", self.spec.run, place)
        self.disk = SimulatedDisk(place, self.chance)
        self.disk.settle()
        self.now = self.epoch = 0
        self.seen: Counter[str] = Counter()
        self.promised: dict[Number, int] = {}
        self.inserted: list[tuple[Number, int]] = []  # in this order, with their rows
        self.saved: dict[str, list[Number]] = {}
        self._parcel = a_parcel
        self._senders = [Sender(self, name) for name in ("one", "two")]
        self._epoch: LearnerEpoch | None = None
        self._faulty = True

    def require(self, truth: bool, promise: str) -> None:
        """Raise if a promise is broken."""
        if not truth:
            raise Violation(promise)

    def play(self) -> None:
        """Run with faults, then without until everything is drained."""
        for _ in range(STEPS):
            self._step(faulty=True)
        self.disk.full = self.disk.broken = False
        self.disk.dies_in = -1
        for _ in range(400):
            self._step(faulty=False)
            if all(sender.outbox.idle for sender in self._senders):
                break
        self.require(
            all(sender.outbox.idle for sender in self._senders),
            "everything drains once faults stop",
        )
        self._fall(power=False)
        self._live(lambda: None)
        self.require(self._epoch is not None, "a learner resumes after the last fault")
        self._fall(power=False)

    def release(self) -> None:
        """Close everything, also after a failure."""
        self.disk.kill()

    # ---- the disk

    def messages(self, first: int = 0):  # type: ignore[no-untyped-def]
        """Yield each parcel in the journal: its segment, envelope, rows and record."""
        for number, found in segments.read(self.run.folder / segments.FOLDER, first):
            if isinstance(found, Record) and found.kind is Kind.MESSAGE:
                opened = wire.open_frame(found.payload)
                envelope = wire.read_envelope(opened)
                yield number, envelope, payloads.counts_of(opened)[0], found

    def newest(self) -> list[tuple[Number, int]]:
        """Return the parcels in the replay, the newest last, and a partly dropped one first."""
        rows, found = 0, list[tuple[Number, int]]()
        while rows < REPLAY and len(found) < len(self.inserted):
            found.append(self.inserted[-1 - len(found)])
            rows += found[-1][1]
        return found[::-1]

    def check(self, inbox: Inbox) -> None:
        """Check after a recovery that every acknowledged parcel is there once."""
        for number in self.promised:
            self.require(inbox.has(*number), "an acknowledged number is known")
        self.seen["retired"] += inbox.incarnations[1]
        there = [
            (Position(segment, record.end), number_of(envelope), wire.checksum(record.payload))
            for segment, envelope, _, record in self.messages()
        ]
        self.require(
            len({number for _, number, _ in there}) == len(there), "nothing is there twice"
        )
        if self.keep:
            checksums = {number: checksum for _, number, checksum in there}
            self.require(
                all(checksums.get(number) == told for number, told in self.promised.items()),
                "an acknowledged parcel is there",
            )
        self._check_checkpoints([(position, number) for position, number, _ in there])
        found = Audit(self.run.folder)
        list(found.read())
        found.check_totals()
        self.require(
            not any("torn" in note for note in found.notes),
            "a torn tail is cut",
        )
        damage = [
            problem for problem in found.problems if "damaged" in problem
        ]  # of the last group, which was not acknowledged
        self.seen["damage"] += len(damage)
        odd = [problem for problem in found.problems if problem not in damage]
        self.require(not odd, f"an audit finds nothing: {odd[:1]}")
        self.require(not found.totals.inbox.lost, "honest actors give nothing up")

    def _check_checkpoints(self, there: list[tuple[Position, Number]]) -> None:
        for name in manifest.kept(self.run.folder):
            try:
                facts = checkpoint.read(self.run.folder, name).facts
            except ConfigurationError as error:
                raise Violation("a checkpoint that is named is whole") from error
            first, end = Position(facts[REPLAY_FROM], 0), Position(*facts[POSITION])
            covered, wanted = (
                [number for position, number in there if first <= position <= end],
                self.saved.get(name, []),
            )
            self.require(
                covered[len(covered) - len(wanted) :] == wanted,
                "the parcels that a kept checkpoint needs are there",
            )

    # ---- events

    def _step(self, *, faulty: bool) -> None:
        self.now += 1
        self._faulty, chance = faulty, self.chance.random
        if faulty and chance() < 0.03:
            self._fall(power=self.durable and chance() < 0.6)
        if faulty and chance() < 0.05:
            self.disk.dies_in = self.chance.randint(0, 12)
        if faulty and chance() < 0.03:
            self.disk.full = not self.disk.full
            self.seen["full"] += 1
        if faulty and chance() < 0.01 and self.durable:
            self.disk.broken = True
        if faulty and chance() < 0.02:
            self._senders[self.chance.randrange(2)] = Sender(
                self, self.chance.choice(("one", "two"))
            )
        self._live(self._exchange)

    def _live(self, action: Callable[[], None]) -> None:
        """Act in this epoch of the learner, or in a new one.

        Only death and errors of the disk may end an epoch.
        """
        try:
            if self._epoch is None:
                if self._faulty and self.chance.random() < 0.3:  # while it starts or recovers
                    self.disk.dies_in = self.chance.randint(0, 8)
                self._epoch = LearnerEpoch(self)
            action()
        except Death:
            self.seen["deaths"] += 1
            self._fall(power=self.durable and self.chance.random() < 0.5)
        except (OSError, ConfigurationError) as error:
            cause = error.__cause__ if isinstance(error, ConfigurationError) else error
            if not isinstance(cause, OSError):
                raise Violation(f"a run can be resumed: {error}") from error
            self.seen[f"ended by {cause.strerror}"] += 1
            self._fall(power=False)
            self.disk.full = False

    def _exchange(self) -> None:
        epoch = self._epoch
        assert epoch is not None
        for sender in self._senders:
            outbox = sender.outbox
            if self._faulty and self.chance.random() < 0.5 and outbox.ledger.waiting.parcels < 5:
                parcel = self._parcel((self.chance.randint(1, 8),))
                outbox.offer(parcel, parcel.rows, 100)
            frames: list[bytes] = []
            outbox.drain(self.now, lambda frame, frames=frames: _taken(frame, frames))
            for frame in frames:
                if self.chance.random() < 0.9:
                    epoch.receive(frame)
        if self.chance.random() < 0.6:
            self._commit(epoch)
        for sender in self._senders:
            if self.chance.random() < 0.8:
                self._acknowledge(epoch, sender)
        if self.chance.random() < 0.15:
            self._save(epoch)

    def _acknowledge(self, epoch: LearnerEpoch, sender: Sender) -> None:
        key = sender.name, sender.outbox.incarnation
        numbers = *epoch.inbox.received(*key), Credit(9, 10**6)
        origin = (self.spec.run, self.spec.policy, *key, 5, epoch.inbox.epoch)
        sender.outbox.acknowledge(Acknowledgement(*origin, *numbers), self.now)

    def _commit(self, epoch: LearnerEpoch) -> None:
        full, before = self.disk.full, len(epoch.journal._entries)
        epoch.turn()
        if full and before and epoch.journal.problem:
            self.seen["waited for room"] += 1

    def _save(self, epoch: LearnerEpoch) -> None:
        epoch.save()
        self.seen["checkpoints"] += 1

    def _fall(self, *, power: bool) -> None:
        self._epoch = None
        if power:
            self.seen["power cuts"] += 1
            self.disk.cut_power()
        else:
            self.seen["kills"] += 1
            self.disk.kill()


def _taken(frame: Frame, frames: list[bytes]) -> bool:
    """Take a frame, at most three in a turn."""
    if len(frames) < 3:
        frames.append(bytes(frame))
        return True
    return False


def simulate_storage(seed: int) -> Counter[str]:
    """Run one seed and return what happened; raise `Violation` if a promise is broken."""
    with ExitStack() as stack:
        above = stack.enter_context(
            tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        )
        place = Path(above) / "run"
        place.mkdir()
        world = Storage(seed, place)
        stack.enter_context(installed(world.disk.sync_inode))
        threads = SimpleNamespace(Thread=IdleThread, Condition=threading.Condition)
        stack.enter_context(patch.multiple(journal, threading=threads, FULL_S=0.0))
        salts = lambda: bytes(world.chance.randint(1, 255) for _ in range(4))  # noqa: E731
        stack.enter_context(patch.object(record_module, "new_salt", salts))
        stack.enter_context(patch.object(inbox_module, "LIVE", LIVE))
        logging.disable()
        stack.callback(logging.disable, logging.NOTSET)
        stack.callback(world.release)
        world.play()
        return world.seen + Counter(acknowledged=len(world.promised))


def simulate_storages(seeds: Iterable[int]) -> Counter[str]:
    """Run several seeds and return what happened in all of them together."""
    return sum(map(simulate_storage, seeds), start=Counter[str]())
