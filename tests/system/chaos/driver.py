"""A learner's storage without the learner, with an actor that keeps its receipts.

Each story has an undisturbed part and a part in which a crash or a disk error is planted. Then
`verify` must hold: it is the next epoch of the learner, and an audit.
"""

import io
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from support.makers import a_frame, a_spec, some_weights

from farflung.common.data.parcel import Parcel, Results
from farflung.common.data.spec import Graph, Spec, Tensor
from farflung.common.protocol import receipts, wire
from farflung.common.protocol.inbox import Inbox
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.endpoint.items import Item
from farflung.learner.storage import audit, checkpoint, manifest, policies, recover
from farflung.learner.storage.checkpoint import Checkpoint
from farflung.learner.storage.journal import journal, segments
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.totals import JournalTotals
from farflung.learner.storage.manifest import POSITION, needed_from
from farflung.learner.storage.replay_extent import ReplayExtent, journal_facts
from farflung.learner.storage.run_folder import Run

SEGMENT_BYTES = 4096  # a handful of parcels
REPLAY_ROWS = 12  # four parcels: older segments are soon needed by nothing but older checkpoints
STEPS = 20  # of the part in which something happens
PATIENCE_S = 60.0  # other work may keep the disk busy
LOOK_S = 0.02
LARGE = 512  # side of the matrix of a best evaluation that takes a while to write
GONE = "can they be compared"  # ends the audit's sentence on removed segments, which are fine here


class LearnerEpoch:
    """One start of a learner, as its disk sees it."""

    def __init__(self, run: Path, *, keep: bool) -> None:
        self.run = Run("one", "run-1", run, resumed=bool(segments.numbers(run / segments.FOLDER)))
        recovered = recover.recover(self.run, durable=True) if self.run.resumed else None
        self.inbox = recovered.inbox if recovered is not None else Inbox(1)
        self.endpoint = Endpoint(a_spec(), self.inbox)
        self.extent = ReplayExtent()
        totals = recovered.totals if recovered is not None else JournalTotals("run-1")
        self.journal = self.endpoint.log = Journal(
            run,
            totals,
            self.inbox.epoch,
            self._insert,
            durable=True,
            keep=keep,
            segment_bytes=SEGMENT_BYTES,
        )
        self._settled = threading.Event()
        self.endpoint.settlements.wake = self._settled.set
        self.saved = max((int(name) for name in manifest.kept(run)), default=0)
        journal.FULL_S = 0.05  # the planted error comes once, and there are many
        self._receipts = receipts.Receipts(run / "receipts")

    def receive(self, number: int) -> None:
        """Receive a parcel; its actor writes a receipt once it is acknowledged."""
        frame = numbered_frame(number)
        if item := self.endpoint.receiver.receive(frame, 0.0):
            self.journal.append([item])
            self._await(number)
        else:
            self._receipts.add(receipt(number, frame))

    def save(self) -> None:
        """Write a checkpoint that holds its number, and let go of unneeded segments.

        A disk that refuses is tried again another time.
        """
        tensors = {name: torch.full((64,), float(self.saved + 1)) for name in ("weights", "target")}
        try:
            facts = journal_facts(self.journal, self.extent, REPLAY_ROWS)
            taken = Checkpoint(tensors, {"updates": self.saved + 1} | facts)
            self.journal.sync_to(taken.facts[POSITION][0])
            checkpoint.save(self.run.folder, taken)
        except (OSError, SafetensorError):
            return
        self.saved += 1
        self._evaluate()
        self.journal.forget_before(needed_from(self.run.folder))
        with (self.run.folder / "promises").open("a") as file:
            file.write(f"{self.saved}\n")

    def _evaluate(self) -> None:
        """Replace the best evaluation by that of the checkpoint; note that it is written."""
        try:
            write_best(self.run.folder, self.saved)
        except OSError:
            return
        with (self.run.folder / "best promise").open("a") as file:
            file.write(f"{self.saved}\n")

    def _await(self, number: int) -> None:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            self._settled.wait(LOOK_S)
            self._settled.clear()
            settled = [envelope for envelope, _ in self.endpoint.settlements.take()]
            for envelope in settled:
                self.endpoint.receiver.settle(envelope)
                self._receipts.add(receipt(envelope.sequence, numbered_frame(envelope.sequence)))
            self.journal.check()
            if number in [envelope.sequence for envelope in settled]:
                return
        raise TimeoutError(
            f"number {number} is not settled within {PATIENCE_S:g} s: {self.journal.problem}"
        )

    def _insert(self, items: list[Item[Parcel]]) -> None:
        for item in items:
            assert item.end is not None
            self.extent.inserted(item.content.rows, item.end)


@dataclass(frozen=True)
class Story:
    """An undisturbed part, and a part that is disturbed."""

    name: str
    keep: bool  # the whole journal
    prepare: Callable[[Path], LearnerEpoch | None]
    go: Callable[[Path, LearnerEpoch | None], None]


def numbered_frame(number: int) -> bytes:
    """Return the parcel of this number, always the same bytes."""
    return bytes(a_frame(a_spec(), sequence=number))


def receipt(number: int, frame: bytes) -> receipts.Receipt:
    """Return the receipt of a parcel."""
    return receipts.Receipt(
        "run-1", "default", "box-1", 7, number, wire.checksum(memoryview(frame))
    )


def write_best(run: Path, number: int, size: int = 2) -> None:
    """Write a best evaluation that holds its number everywhere."""
    spec = evaluated_spec(size)
    weights = some_weights(spec, number, value=float(number))
    results = Results(np.full(3, float(number)), np.full(3, number, np.int32))
    policies.write_best(run, weights, results)


def best_is_whole(run: Path, size: int = 2) -> None:
    """Check that the best evaluation is of one write: the last promised one, or one after it.

    A disk that refused may have skipped one.
    """
    promise = run / "best promise"
    promised = int((promise.read_text().split() if promise.exists() else ["0"])[-1])
    best = policies.read_best(run)
    if best is None:
        assert not promised
        return
    weights = policies.read_weights(run, evaluated_spec(size), "best")
    number = weights.version.number
    assert promised <= number <= promised + 2, (number, promised)
    assert (best.returns, best.lengths) == ((float(number),) * 3, (number,) * 3)
    assert all((array == number).all() for array in weights.arrays.values())


def evaluated_spec(size: int) -> Spec:
    """Return a spec with a square matrix of this side as its weights."""
    matrix = Tensor("matrix", "float32", (size, size))
    return a_spec(graph=Graph(b"model", (), (), (matrix,)))


def begun(run: Path, *, keep: bool = True) -> LearnerEpoch:
    """Return a learner that has received and saved before."""
    epoch = LearnerEpoch(run, keep=keep)
    for number in range(1, 9):
        epoch.receive(number)
        if number % 2 == 0:
            epoch.save()
    return epoch


def fill(run: Path, epoch: LearnerEpoch | None) -> None:
    """Receive parcels over several segments."""
    assert epoch is not None
    for number in range(9, 9 + STEPS):
        epoch.receive(number)


def save(run: Path, epoch: LearnerEpoch | None) -> None:
    """Receive and save in turn; segments and older checkpoints go."""
    assert epoch is not None
    for number in range(9, 13):
        epoch.receive(number)
        epoch.save()
    epoch.journal.close()


def crashed(run: Path) -> None:
    """Leave a torn record, an unfinished checkpoint, and an earlier epoch's segment."""
    epoch = begun(run)
    epoch.journal.close()
    last = segments.path_of(run / segments.FOLDER, segments.numbers(run / segments.FOLDER)[-1])
    with last.open("r+b") as file:
        file.seek(0, 2)
        file.write(b"\x01" * 99)
    (run / manifest.FOLDER / f"{epoch.saved + 1:06}").mkdir()


def go_on(run: Path, _: LearnerEpoch | None) -> None:
    """Start the next epoch; its actor continues."""
    epoch = LearnerEpoch(run, keep=True)
    epoch.receive(9)
    epoch.save()


STORIES = (
    Story("roll", keep=True, prepare=begun, go=fill),
    Story("checkpoint", keep=False, prepare=lambda run: begun(run, keep=False), go=save),
    Story("recovery", keep=True, prepare=crashed, go=go_on),
)


def verify(run: Path, keep: bool) -> None:
    """Check the newest checkpoint, let the actor send everything again, and audit the run."""
    told = {item.sequence for item in receipts.read(run / "receipts")}
    promised = [int(word) for word in (run / "promises").read_text().split()]
    loaded = checkpoint.load(run)
    assert int(loaded.facts["updates"]) in (promised[-1], promised[-1] + 1), (
        loaded.facts,
        promised,
    )
    assert all((tensor == loaded.facts["updates"]).all() for tensor in loaded.tensors.values())
    best_is_whole(run)
    epoch = LearnerEpoch(run, keep=keep)
    for number in sorted(set(range(1, max(told) + 4)) - told):
        epoch.receive(number)
    epoch.save()
    epoch.journal.close()
    found = audit.Audit(run)
    list(found.read())
    found.check_totals()
    found.check_checkpoints()
    verdict = found.compare(list(receipts.read(run / "receipts")))
    problems = [problem for problem in found.problems if keep or not problem.endswith(GONE)]
    assert not problems, (verdict, problems)
    (incarnation,) = found.totals.inbox.state()["live"]
    assert (incarnation["contiguous"], incarnation["out_of_order"]) == (max(told) + 3, [])
    assert found.totals.rows == 3 * (max(told) + 3), (found.totals.rows, max(told))
    assert audit.audit(run, [], "", io.StringIO()) == 0


def save_on_and_on(run: Path) -> None:
    """Write checkpoints of some megabytes one after the other, and best evaluations between them.

    Note each complete one.
    """
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
        write_best(run, number, LARGE)
        with (run / "best promise").open("a") as file:
            file.write(f"{number}\n")


def newest_is_whole(run: Path) -> None:
    """Check that every kept checkpoint loads whole, and the newest is the noted one or the next.

    So is the best evaluation.
    """
    best_is_whole(run, LARGE)
    promised = (run / "promises").read_text().split() if (run / "promises").exists() else []
    kept = [int(name) for name in manifest.kept(run)]
    assert kept[-1:] in (
        [int(word) for word in promised[-1:]],
        [int((promised or ["0"])[-1]) + 1],
    ), (kept, promised[-1:])
    for name in manifest.kept(run):
        saved = checkpoint.read(run, name)
        assert all((tensor == int(name)).all() for tensor in saved.tensors.values())
