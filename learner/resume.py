"""Going on with a run: what its journal and checkpoints say is made again, and whatever is odd about them is said."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from common.delivery import Inbox
from common.errors import ConfigurationError, Refused
from common.membership import RosterState
from common.packing import ParcelFormat
from common.trajectory import Parcel
from common.weights import Version
from learner import manifest
from learner.durable import sync
from learner.journal import content, folder
from learner.journal import format as form
from learner.journal.content import Marker, Table
from learner.journal.coverage import Coverage
from learner.journal.folder import Position
from learner.journal.format import Kind, Record
from learner.manifest import POSITION, REPLAY_FROM, REPLAY_HASH
from learner.run import Run

if TYPE_CHECKING:  # reading the journal comes before torch is loaded
    from learner.checkpoint import Checkpoint
    from learner.training import Training

log = logging.getLogger(__name__)

AT_ONCE = 64  # parcels that enter the replay in one go: alone, small ones cost as much as large ones


@dataclass(frozen=True, slots=True)
class Past:
    """What earlier lives of the learner received."""

    table: Table  # the next life's journal goes on counting in it
    inbox: Inbox  # of the next life
    last: int  # the newest segment
    rows: int
    episodes: int
    marker: Marker
    members: RosterState | None = None  # who took part when the newest checkpoint was taken


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
            sync(path)
    table = Table(run.identity) if numbers == [1] else None  # its first record may never have been finished
    for number, found in folder.read(journal):
        if isinstance(found, Record):
            table = _counted(table, found, f"segment {number}, byte {found.start}")
    if table is None:
        raise ConfigurationError(f"nothing in {journal} can be read")
    members = _newest_facts(run.folder).get("roster")
    return Past(table, Inbox.restore(table.inbox.state()), numbers[-1], table.rows, table.episodes, table.marker, members)


def restore(run_folder: Path, training: "Training", coverage: Coverage, past: Past) -> str:
    """Weights and counters of the newest checkpoint, and the replay from the journal; gives what was restored."""
    saved = _weights(run_folder, training)
    _replay(run_folder / folder.NAME, saved.facts, training, coverage, past)
    updates = int(saved.facts.get("updates", 0))
    samples = int(saved.facts.get("samples", updates * training.pacing.batch))
    training.progress.steps, training.progress.episodes = past.rows, past.episodes
    training.updates = training.published_updates = max(past.marker.updates, updates)
    training.version = Version(training.version.epoch, past.marker.version)
    training.pacing.rows = past.rows
    training.pacing.samples = samples + (training.updates - updates) * training.pacing.batch  # what is lost since then counts as done
    return (
        f"epoch {training.version.epoch}, {training.steps} steps, {training.updates} updates, {training.replay.size} transitions in the "
        f"replay, parameters {training.fingerprint} as of update {updates}"
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


def _weights(run_folder: Path, training: "Training") -> "Checkpoint":
    """The newest checkpoint that can be read, taken over; an empty one where there is none yet."""
    import torch

    from learner import checkpoint

    if not manifest.kept(run_folder):
        log.warning("%s has no checkpoint yet: the weights begin anew, the replay does not", run_folder)
        return checkpoint.Checkpoint({})
    saved = checkpoint.load(run_folder)
    try:
        training.algorithm.restore(saved.tensors)
    except (RuntimeError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError(f"the weights in {run_folder} do not fit this algorithm and network ({reason})") from error
    if random := saved.facts.get("random"):
        torch.set_rng_state(torch.from_numpy(np.frombuffer(random, np.uint8).copy()))
    return saved


def _replay(journal: Path, saved: Mapping[str, Any], training: "Training", coverage: Coverage, past: Past) -> None:
    """Insert every parcel that the checkpoint's replay needs, and all after it, in the order in which they came.

    Pacing has no say: they were let in before. At the checkpoint's place the replay must be what it was there.
    """
    expected = Position(*saved.get(POSITION, (0, 0)))
    parcels, end = ParcelFormat(training.spec), folder.START
    waiting: list[Parcel] = []
    for number, found in folder.read(journal, int(saved.get(REPLAY_FROM, 0))):
        if number <= past.last and isinstance(found, Record) and found.kind is Kind.MESSAGE:
            envelope, opened = content.read_message(found)
            try:
                parcel = parcels.decode(opened, envelope)
            except Refused as refusal:
                raise ConfigurationError(f"the journal does not fit these settings: {refusal}") from refusal
            waiting.append(parcel)
            end = Position(number, found.end, form.chained(end.digest if end.segment == number else 0, found.payload))
            coverage.inserted(parcel.rows, end)
            if len(waiting) == AT_ONCE or end == expected:
                training.insert(waiting)
                waiting.clear()
            if end == expected:
                _compare(saved, training, coverage)
    training.insert(waiting)
    if end < expected:
        log.error(
            "the journal ends at %s, before the place of the checkpoint, %s: what was acknowledged between them is gone", end, expected
        )


def _compare(saved: Mapping[str, Any], training: "Training", coverage: Coverage) -> None:
    """Whether the replay is what it was when the checkpoint was taken, and what sampling it depends on."""
    found, expected = coverage.digest(training.replay.size), saved.get(REPLAY_HASH)
    place = f"journal {coverage.position}"
    if found == expected:
        log.info("the replay is %s as of %s, as it was when the checkpoint was taken", found, place)
        training.replay.restore(saved.get("replay", b""))
    else:
        log.error("the replay is %s as of %s, and it was %s when the checkpoint was taken: other rows are in it", found, place, expected)


def _newest_facts(run_folder: Path) -> dict[str, Any]:
    """What the newest checkpoint that can be read says of itself."""
    for name in reversed(manifest.kept(run_folder)):
        try:
            return manifest.facts(run_folder, name)
        except ConfigurationError:
            continue  # it is named when its tensors are asked for
    return {}
