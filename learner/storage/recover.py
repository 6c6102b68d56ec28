"""Going on with a run: what its journal and checkpoints say is made again, and whatever is odd about them is said."""

import logging
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from farflung.common.data.parcel import Parcel
from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.roster import RosterState
from farflung.learner.storage import manifest
from farflung.learner.storage.journal import folder, payloads
from farflung.learner.storage.journal import format as form
from farflung.learner.storage.journal.folder import Position
from farflung.learner.storage.journal.format import Kind, Record
from farflung.learner.storage.journal.payloads import JournalTotals, Marker
from farflung.learner.storage.manifest import POSITION, REPLAY_FROM, REPLAY_HASH, TABLE
from farflung.learner.storage.replay_extent import ReplayExtent
from farflung.learner.storage.retention import needed_from
from farflung.learner.storage.run_folder import Run

if TYPE_CHECKING:  # reading the journal comes before torch is loaded
    from farflung.learner.core.core import Core
    from farflung.learner.storage.checkpoint import Checkpoint

log = logging.getLogger(__name__)

AT_ONCE = 32_768  # rows that enter the replay in one go: most of what a small parcel costs is the calls, not its rows


@dataclass(frozen=True, slots=True)
class Recovered:
    """What earlier lives of the learner received."""

    table: JournalTotals  # the next life's journal goes on counting in it
    inbox: Inbox  # of the next life
    last: int  # the newest segment
    rows: int
    episodes: int
    marker: Marker
    members: RosterState | None = None  # who took part when the newest checkpoint was taken
    parcels: Mapping[int, "array[int]"] = field(
        default_factory=dict
    )  # of each segment: where each parcel's record starts and ends


def recover(run: Run, *, durable: bool) -> Recovered:
    """Make the journal whole and durable, and count what is in it. Only then may any of it be acknowledged.

    It is read from the first segment on that a kept checkpoint needs: each begins with a table of what came before it.
    """
    journal = run.folder / folder.NAME
    numbers = folder.numbers(journal)
    if not numbers:
        raise ConfigurationError(
            f"{run.folder} has no journal to go on from: --init {run.folder} starts another run from its weights"
        )
    table = (
        JournalTotals(run.identity) if numbers == [1] else None
    )  # its first record may never have been finished
    saved, parcels = _facts(run.folder), defaultdict[int, "array[int]"](partial(array, "Q"))
    tables = {
        number: Record(Kind.TABLE, memoryview(packed), 0, 0)
        for number, packed in (facts[TABLE] for facts in saved if TABLE in facts)
    }
    for number, found in folder.mend(journal, _first_needed(run.folder)):
        if isinstance(found, str):
            log.warning(found)
            continue
        if found.kind is Kind.MESSAGE:
            parcels[number].extend((found.start, found.end))
        if table is None and found.kind is not Kind.TABLE:
            table = _in_place_of(tables.get(number), journal, number, numbers[-1])
        if table is not None or found.kind is Kind.TABLE:
            table = _counted(table, found, f"segment {number}, byte {found.start}")
    if durable:
        for path in (*(folder.path_of(journal, number) for number in numbers), journal):
            atomic_file.sync(path)
    if table is None:
        raise ConfigurationError(f"nothing in {journal} can be read")
    members = saved[0].get("roster") if saved else None
    return Recovered(
        table,
        Inbox.restore(table.inbox.state()),
        numbers[-1],
        table.rows,
        table.episodes,
        table.marker,
        members,
        parcels,
    )


def restore(run_folder: Path, core: "Core", coverage: ReplayExtent, past: Recovered) -> str:
    """Weights and counters of the newest checkpoint, and the replay from the journal; gives what was restored."""
    saved = _weights(run_folder, core)
    _replay(run_folder / folder.NAME, saved.facts, core, coverage, past)
    updates = int(saved.facts.get("updates", 0))
    samples = int(saved.facts.get("samples", updates * core.pacing.batch))
    reached = max(past.marker.updates, updates)
    core.resume(
        steps=past.rows,
        episodes=past.episodes,
        updates=reached,
        # what is lost since then counts as sampled
        samples=samples + (reached - updates) * core.pacing.batch,
        version=past.marker.version.number,
    )
    return (
        f"epoch {core.state.version.epoch}, {core.state.steps} steps, {core.state.updates} updates, "
        f"{core.replay.steps} transitions in the replay, parameters {core.fingerprint} "
        f"as of update {updates}"
    )


def _first_needed(run_folder: Path) -> int:
    """The first segment that a checkpoint needs; all are where one of them cannot say."""
    try:
        return needed_from(run_folder)
    except ConfigurationError:
        return 0


def _in_place_of(
    saved: Record | None, journal: Path, number: int, last: int
) -> JournalTotals | None:
    """The table that a segment should begin with, from a checkpoint. None where the next segment's own one will do."""
    path = folder.path_of(journal, number)
    if saved is not None:
        log.warning("%s: its table is damaged; the one in a checkpoint is taken", path)
        return _counted(None, saved, f"the table of segment {number} in a checkpoint")
    if number == last:
        raise ConfigurationError(
            f"the journal cannot be gone on with: {path}: the table before it is gone: what earlier ones held is not known"
        )
    return None


def _counted(table: JournalTotals | None, record: Record, where: str) -> JournalTotals:
    """The counts with one more record."""
    try:
        if record.kind is Kind.TABLE:
            return payloads.read_table(record) if table is None else table
        if table is None:
            raise Refused(
                "malformed", "the table before it is gone: what earlier segments held is not known"
            )
        if record.kind is Kind.MESSAGE:
            envelope, opened = payloads.read_message(record.payload)
            table.message(envelope, *payloads.counts_of(opened))
            return table
        said = payloads.read(record)
    except Refused as refusal:
        raise ConfigurationError(
            f"the journal cannot be gone on with: {where}: {refusal}"
        ) from refusal
    if isinstance(said, payloads.Refusal):
        table.refusal(said)
    elif isinstance(said, payloads.Marker):
        table.marker = said
    else:
        table.inbox.epoch = said.epoch
    return table


def _weights(run_folder: Path, core: "Core") -> "Checkpoint":
    """The newest checkpoint that can be read, taken over; an empty one where there is none yet."""
    import torch

    from farflung.learner.storage import checkpoint

    if not manifest.kept(run_folder):
        log.warning(
            "%s has no checkpoint yet: the weights begin anew, the replay does not", run_folder
        )
        return checkpoint.Checkpoint({})
    saved = checkpoint.load(run_folder)
    try:
        core.algorithm.restore(saved.tensors)
    except (RuntimeError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError(
            f"the weights in {run_folder} do not fit this algorithm and network ({reason})"
        ) from error
    if random := saved.facts.get("random"):
        torch.set_rng_state(torch.from_numpy(np.frombuffer(random, np.uint8).copy()))
    return saved


def _replay(
    journal: Path,
    saved: Mapping[str, Any],
    core: "Core",
    coverage: ReplayExtent,
    past: Recovered,
) -> None:
    """Insert every parcel that the checkpoint's replay needs, and all after it, in the order in which they came.

    Pacing has no say: they were let in before. At the checkpoint's place the replay must be what it was there.
    """
    expected = Position(*saved.get(POSITION, (0, 0)))
    waiting: list[Parcel] = []
    rows, end = 0, folder.START
    for parcel, end in _parcels(
        journal, int(saved.get(REPLAY_FROM, 0)), ParcelCodec(core.spec), past
    ):
        waiting.append(parcel)
        rows += parcel.rows
        coverage.inserted(parcel.rows, end)
        if rows >= AT_ONCE or end == expected:
            core.insert(waiting)
            waiting.clear()
            rows = 0
        if end == expected:
            _compare(saved, core, coverage)
    core.insert(waiting)
    if end < expected:
        log.error(
            "the journal ends at %s, before the place of the checkpoint, %s: what was acknowledged between them is gone",
            end,
            expected,
        )


def _parcels(
    journal: Path, first: int, parcels: ParcelCodec, past: Recovered
) -> Iterator[tuple[Parcel, Position]]:
    """The parcels that were found, from a segment on, each with the place where it ends. What was accepted once is finite."""
    for number, places in past.parcels.items():
        if number >= first:
            data, digest = memoryview(folder.content(journal, number)), 0
            for start, end in zip(places[::2], places[1::2], strict=True):
                payload = form.payload(data, start)
                envelope, opened = payloads.read_message(payload)
                try:
                    parcel = parcels.decode(opened, envelope, known_finite=True)
                except Refused as refusal:
                    raise ConfigurationError(
                        f"the journal does not fit these settings: {refusal}"
                    ) from refusal
                digest = form.chained(digest, payload)
                yield parcel, Position(number, end, digest)


def _compare(saved: Mapping[str, Any], core: "Core", coverage: ReplayExtent) -> None:
    """Whether the replay is what it was when the checkpoint was taken, and what sampling it depends on."""
    found, expected = coverage.digest(core.replay.steps), saved.get(REPLAY_HASH)
    place = f"journal {coverage.position}"
    if found == expected:
        log.info("the replay is %s as of %s, as it was when the checkpoint was taken", found, place)
        core.replay.restore(saved.get("replay", b""))
    else:
        log.error(
            "the replay is %s as of %s, and it was %s when the checkpoint was taken: other rows are in it",
            found,
            place,
            expected,
        )


def _facts(run_folder: Path) -> list[dict[str, Any]]:
    """What the checkpoints that can be read say of themselves, the newest first."""
    found = []
    for name in reversed(manifest.kept(run_folder)):
        with suppress(ConfigurationError):  # it is named when its tensors are asked for
            found.append(manifest.facts(run_folder, name))
    return found
