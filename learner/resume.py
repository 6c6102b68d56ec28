"""Going on with a run: what its journal and checkpoints say is made again, and whatever is odd about them is said."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from common.delivery import Inbox
from common.errors import ConfigurationError, Refused
from common.packing import ParcelFormat
from common.weights import Version
from learner import checkpoint, manifest
from learner.checkpoint import Checkpoint
from learner.journal import content, folder
from learner.journal.archive import REPLAY_FROM
from learner.journal.content import Marker, Table
from learner.journal.coverage import Coverage
from learner.journal.folder import Position
from learner.journal.format import Kind, Record
from learner.run import Run
from learner.training import Training

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Past:
    """What earlier lives of the learner received."""

    table: Table  # the next life's journal goes on counting in it
    inbox: Inbox  # of the next life
    last: int  # the newest segment
    rows: int
    episodes: int
    marker: Marker


def recover(run: Run, *, durable: bool) -> Past:
    """Read the journal once: make it whole, make it durable, and count what is in it. Only then may any of it be acknowledged."""
    journal = run.folder / folder.NAME
    numbers = folder.numbers(journal)
    if not numbers:
        raise ConfigurationError(f"{run.folder} has no journal to go on from: --init {run.folder} starts another run from its weights")
    for sentence in folder.repair(journal):
        log.warning(sentence)
    if durable:
        for path in (*(folder.path_of(journal, number) for number in numbers), journal):
            _sync(path)
    table = Table(run.identity) if numbers == [1] else None  # its first record may never have been finished
    for number, found in folder.read(journal):
        if isinstance(found, Record):
            table = _counted(table, found, f"segment {number}, byte {found.start}")
    if table is None:
        raise ConfigurationError(f"nothing in {journal} can be read")
    return Past(table, Inbox.restore(table.inbox.state()), numbers[-1], table.rows, table.episodes, table.marker)


def restore(run_folder: Path, training: Training, coverage: Coverage, past: Past) -> str:
    """Weights and counters of the newest checkpoint, and the replay from the journal; gives what was restored."""
    saved = _weights(run_folder, training)
    _replay(run_folder / folder.NAME, int(saved.facts.get(REPLAY_FROM, 0)), training, coverage, past)
    training.progress.steps, training.progress.episodes = past.rows, past.episodes
    training.updates = training.published_updates = max(past.marker.updates, int(saved.facts.get("updates", 0)))
    training.version = Version(training.version.epoch, past.marker.version)
    training.pacing.rows = past.rows
    training.pacing.samples = training.updates * training.pacing.batch  # what was learned since the checkpoint counts as done
    return (
        f"epoch {training.version.epoch}, {training.steps} steps, {training.updates} updates, {training.replay.size} transitions in the "
        f"replay, parameters {training.fingerprint} as of update {saved.facts.get('updates', 0)}"
    )


def _counted(table: Table | None, record: Record, where: str) -> Table:
    """The counts with one more record."""
    try:
        if record.kind is Kind.TABLE:
            return content.read_table(record) if table is None else table
        if table is None:
            raise Refused("malformed", "the table before it is gone: what earlier segments held is not known")
        if record.kind is Kind.MESSAGE:
            envelope, opened = content.read_message(record)
            table.message(envelope, *content.counts_of(opened.header))
            return table
        said = content.read(record)
    except Refused as refusal:
        raise ConfigurationError(f"the journal cannot be gone on with: {where}: {refusal}") from refusal
    if isinstance(said, content.Refusal):
        table.refusal(said)
    elif isinstance(said, content.Marker):
        table.marker = said
    else:
        table.inbox.epoch = said.epoch
    return table


def _weights(run_folder: Path, training: Training) -> Checkpoint:
    """The newest checkpoint that can be read, taken over; an empty one where there is none yet."""
    if not manifest.kept(run_folder):
        log.warning("%s has no checkpoint yet: the weights begin anew, the replay does not", run_folder)
        return Checkpoint({})
    saved = checkpoint.load(run_folder)
    try:
        training.algorithm.restore(saved.tensors)
    except (RuntimeError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError(f"the weights in {run_folder} do not fit this algorithm and network ({reason})") from error
    return saved


def _replay(journal: Path, first: int, training: Training, coverage: Coverage, past: Past) -> None:
    """Insert every parcel from a segment on again, in the order in which they came. Pacing has no say: they were let in before."""
    form = ParcelFormat(training.spec)
    for number, found in folder.read(journal, first):
        if number <= past.last and isinstance(found, Record) and found.kind is Kind.MESSAGE:
            envelope, opened = content.read_message(found)
            try:
                parcel = form.decode(opened, envelope)
            except Refused as refusal:
                raise ConfigurationError(f"the journal does not fit these settings: {refusal}") from refusal
            training.insert(parcel)
            coverage.inserted(parcel.rows, Position(number, found.end))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
