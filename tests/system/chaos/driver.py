"""A learner's disk without the learner: the real journal, checkpoints and recovery, with an actor that keeps its receipts.

Each story has a part that happens undisturbed and a part in which a crash or an error of the disk is planted. `verify` is what must hold
whatever happened: it is the next life of the learner, and an audit.
"""

import io
import select
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from support.makers import a_frame, a_spec

from farflung.common.protocol.roster import Roster
from farflung.common.protocol.snapshots import Snapshots

sys.path.append(str(Path(__file__).parents[2]))
from safetensors import SafetensorError

from farflung.common.data.parcel import Parcel
from farflung.common.protocol import receipts, wire
from farflung.common.protocol.inbox import Inbox
from farflung.learner.endpoint.receiver import Receiver
from farflung.learner.storage import audit, checkpoint, manifest, recover
from farflung.learner.storage.checkpoint import Checkpoint
from farflung.learner.storage.journal import folder, writer
from farflung.learner.storage.journal.folder import Position
from farflung.learner.storage.journal.payloads import JournalTotals
from farflung.learner.storage.journal.writer import Journal
from farflung.learner.storage.replay_extent import ReplayExtent
from farflung.learner.storage.retention import POSITION, Retention
from farflung.learner.storage.run_folder import Run

SEGMENT_BYTES = 4096  # a handful of parcels
REPLAY_ROWS = 12  # four parcels: older segments are soon needed by nothing but older checkpoints
STEPS = 20  # of the part in which something happens
PATIENCE_S = 5.0
LOOK_S = 0.02
GONE = "can they be compared"  # the end of what an audit says of segments that are gone: no fault where the journal is not kept


class Incarnation:
    """One life of a learner, as its disk sees it."""

    def __init__(self, run: Path, *, keep: bool) -> None:
        self.run = Run("one", "run-1", run, resumed=bool(folder.numbers(run / folder.NAME)))
        past = recover.recover(self.run, durable=True) if self.run.resumed else None
        self.inbox = past.inbox if past is not None else Inbox(1)
        self.receiver = Receiver(a_spec(), self.inbox, Roster(), Snapshots())
        self.coverage = ReplayExtent()
        table = past.table if past is not None else JournalTotals("run-1")
        self.journal = Journal(
            run, table, self.inbox.epoch, self._insert, durable=True, segment_bytes=SEGMENT_BYTES
        )
        self.archive = Retention(run, self.journal, self.coverage, keep=keep)
        self.saved = max((int(name) for name in manifest.kept(run)), default=0)
        writer.FULL_S = (
            0.05  # between two tries to find room: here an error comes once, and there are many
        )
        self._told = receipts.Receipts(run / "receipts")

    def receive(self, number: int) -> None:
        """An actor sends a parcel, and writes down that it counts when it is told so."""
        frame = numbered_frame(number)
        if accepted := self.receiver.receive(frame, 0.0):
            self.journal.take(accepted)
            self._hear(number)
        else:
            self._told.add(receipt(number, frame))

    def save(self) -> None:
        """A checkpoint whose number is in its tensors; what no kept one needs goes. A disk that refuses is tried again another time."""
        tensors = {name: torch.full((64,), float(self.saved + 1)) for name in ("weights", "target")}
        try:
            taken = Checkpoint(
                tensors, {"updates": self.saved + 1} | self.archive.place(REPLAY_ROWS)
            )
            self.archive.secure(taken.facts[POSITION][0])
            checkpoint.save(self.run.folder, taken)
        except (OSError, SafetensorError):
            return
        self.saved += 1
        self.archive.prune()
        with (self.run.folder / "promises").open("a") as file:
            file.write(f"{self.saved}\n")

    def _hear(self, number: int) -> None:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            select.select([self.journal.fileno()], [], [], LOOK_S)
            settled = self.journal.settled()
            for envelope in settled:
                self.receiver.settle(envelope)
                self._told.add(receipt(envelope.sequence, numbered_frame(envelope.sequence)))
            self.journal.check()
            if number in [envelope.sequence for envelope in settled]:
                return
        raise TimeoutError(
            f"number {number} is not settled within {PATIENCE_S:g} s: {self.journal.problem}"
        )

    def _insert(self, parcels: list[tuple[Parcel, Position]]) -> None:
        for parcel, end in parcels:
            self.coverage.inserted(parcel.rows, end)


@dataclass(frozen=True)
class Story:
    """What happens undisturbed, and what is disturbed then."""

    name: str
    keep: bool  # the whole journal
    prepare: Callable[[Path], Incarnation | None]
    go: Callable[[Path, Incarnation | None], None]


def numbered_frame(number: int) -> bytes:
    """The parcel of this number, always the same bytes."""
    return bytes(a_frame(a_spec(), sequence=number))


def receipt(number: int, frame: bytes) -> receipts.Receipt:
    """That it was acknowledged."""
    return receipts.Receipt(
        "run-1", "default", "box-1", 7, number, wire.checksum(memoryview(frame))
    )


def begun(run: Path, *, keep: bool = True) -> Incarnation:
    """A learner that has received and saved before."""
    life = Incarnation(run, keep=keep)
    for number in range(1, 9):
        life.receive(number)
        if number % 2 == 0:
            life.save()
    return life


def fill(run: Path, life: Incarnation | None) -> None:
    """Parcels over several segments."""
    assert life is not None
    for number in range(9, 9 + STEPS):
        life.receive(number)


def save(run: Path, life: Incarnation | None) -> None:
    """Parcels and checkpoints in turn; segments and older checkpoints go."""
    assert life is not None
    for number in range(9, 13):
        life.receive(number)
        life.save()
    life.journal.close()


def crashed(run: Path) -> None:
    """A journal that ends in the middle of a record, a checkpoint that was never finished, and an older life's segment."""
    life = begun(run)
    life.journal.close()
    last = folder.path_of(run / folder.NAME, folder.numbers(run / folder.NAME)[-1])
    with last.open("r+b") as file:
        file.seek(0, 2)
        file.write(b"\x01" * 99)
    (run / manifest.FOLDER / f"{life.saved + 1:06}").mkdir()


def go_on(run: Path, _: Incarnation | None) -> None:
    """The next life begins, and its actor goes on."""
    life = Incarnation(run, keep=True)
    life.receive(9)
    life.save()


STORIES = (
    Story("roll", keep=True, prepare=begun, go=fill),
    Story("checkpoint", keep=False, prepare=lambda run: begun(run, keep=False), go=save),
    Story("recovery", keep=True, prepare=crashed, go=go_on),
)


def verify(run: Path, keep: bool) -> None:
    """The next life takes everything that its actor sends again, and then all of it counts once; the newest checkpoint is whole."""
    told = {item.sequence for item in receipts.read(run / "receipts")}
    promised = [int(word) for word in (run / "promises").read_text().split()]
    loaded = checkpoint.load(run)
    assert int(loaded.facts["updates"]) in (promised[-1], promised[-1] + 1), (
        loaded.facts,
        promised,
    )
    assert all((tensor == loaded.facts["updates"]).all() for tensor in loaded.tensors.values())
    life = Incarnation(run, keep=keep)
    for number in sorted(set(range(1, max(told) + 4)) - told):
        life.receive(number)
    life.save()
    life.journal.close()
    findings = audit.Findings(JournalTotals(""))
    for number, record in audit.read(run / folder.NAME, findings):
        audit.take(findings, number, record)
    audit.check_books(findings)
    audit.check_checkpoints(run, findings)
    verdict = audit.compare(findings, list(receipts.read(run / "receipts")))
    problems = [problem for problem in findings.problems if keep or not problem.endswith(GONE)]
    assert not problems, (verdict, problems)
    (life_of_actor,) = findings.table.inbox.state()["lives"]
    assert (life_of_actor["kept"], life_of_actor["beyond"]) == (max(told) + 3, [])
    assert findings.table.rows == 3 * (max(told) + 3), (findings.table.rows, max(told))
    assert audit.audit(run, [], "", io.StringIO()) == 0


def save_on_and_on(run: Path) -> None:
    """Checkpoints of some megabytes, one after the other; each is promised once it is complete."""
    run.mkdir(exist_ok=True)
    number = max((int(name) for name in manifest.kept(run)), default=0)
    while True:
        number += 1
        tensors = {
            name: torch.full((512, 512), float(number)) for name in ("weights", "target", "moments")
        }
        checkpoint.save(run, Checkpoint(tensors, {"updates": number}))
        with (run / "promises").open("a") as file:
            file.write(f"{number}\n")


def newest_is_whole(run: Path) -> None:
    """What was promised, or the one after it, loads with all of its numbers; every kept one does."""
    promised = (run / "promises").read_text().split() if (run / "promises").exists() else []
    kept = [int(name) for name in manifest.kept(run)]
    assert kept[-1:] in (
        [int(word) for word in promised[-1:]],
        [int((promised or ["0"])[-1]) + 1],
    ), (kept, promised[-1:])
    for name in manifest.kept(run):
        saved = checkpoint._read(run, name)
        assert all((tensor == int(name)).all() for tensor in saved.tensors.values())
