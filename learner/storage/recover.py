"""Recovery of a run's journal: mend it, make it durable, count its records. Without torch."""

import logging
import time
from array import array
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.roster import MemberState, RosterState
from farflung.learner.storage import manifest
from farflung.learner.storage.journal import payloads, segments
from farflung.learner.storage.journal.payloads import Joined, Marker
from farflung.learner.storage.journal.record import NO_LINK, Kind, Record
from farflung.learner.storage.journal.totals import JournalTotals
from farflung.learner.storage.manifest import TOTALS, needed_from
from farflung.learner.storage.run_folder import Run

log = logging.getLogger(__name__)

PROGRESS_S = 2.0  # between two log lines of a long recovery

# By segment, of each parcel's record: its start, its end, and the rows of all parcels up to it.
Places = Mapping[int, "array[int]"]


@dataclass(frozen=True, slots=True)
class Recovered:
    """The data that earlier epochs of a run received.

    The counts are copies, because the next journal goes on counting in `totals` while the replay
    is still being restored.
    """

    totals: JournalTotals  # for the next epoch's journal
    inbox: Inbox  # for the next epoch's receiver
    rows: int
    episodes: int
    marker: Marker
    roster: RosterState | None = None  # of those that play rounds, or as of the newest checkpoint
    parcels: Places = field(default_factory=dict)
    # Steps and updates of each version in the segments that were read, one after the other.
    published: "array[int]" = field(default_factory=partial(array, "Q"))


def recover(run: Run, *, durable: bool) -> Recovered:
    """Make the journal whole and durable, and count its records.

    Only then may any of it be acknowledged. Reading begins with the first segment that a kept
    checkpoint needs, because each segment begins with the totals of those before it.
    """
    journal = run.folder / segments.FOLDER
    numbers = segments.numbers(journal)
    if not numbers:
        raise ConfigurationError(
            f"{run.folder} has no journal to resume from: "
            f"--init {run.folder} starts another run from its weights"
        )
    saved = _readable_facts(run.folder)
    totals, parcels, published = _count(run, journal, numbers, saved)
    if durable:
        _write_again(journal, numbers[-1])
        for path in (*(segments.path_of(journal, number) for number in numbers), journal):
            atomic_file.sync(path)
    return Recovered(
        totals,
        Inbox.restore(totals.inbox.state()),
        totals.rows,
        totals.episodes,
        totals.marker,
        members(totals.places) or (saved[0].get("roster") if saved else None),
        parcels,
        published,
    )


def members(places: Mapping[int, Joined]) -> RosterState | None:
    """Return the roster of all that play rounds; None if there are none."""
    if not places:
        return None
    starts = [0] * (max(places) + 1)
    listed: list[MemberState] = []
    for index, place in sorted(places.items()):
        starts[index] = place.start + 1
        listed.append(
            MemberState(
                actor=place.actor,
                incarnation=place.incarnation,
                index=index,
                start=place.start,
                left=False,
            )
        )
    return RosterState(starts=starts, members=listed)


def _write_again(journal: Path, number: int) -> None:
    """Write the newest segment as a new file.

    After a failed sync the system takes bytes for written that are not on the disk, and shows them:
    no later sync of that file would write them. Only the newest segment can have such bytes.
    """
    path = segments.path_of(journal, number)
    try:
        atomic_file.write(path, segments.content(journal, number))
    except OSError as error:
        raise ConfigurationError(
            f"the journal cannot be resumed: {path} cannot be written again: {error.strerror}"
        ) from error


def _readable_facts(run_folder: Path) -> list[dict[str, Any]]:
    """Return the facts of the checkpoints that can be read, the newest first."""
    found = []
    for name in reversed(manifest.kept(run_folder)):
        with suppress(ConfigurationError):  # the log names it when its tensors are read
            found.append(manifest.facts(run_folder, name))
    return found


def _count(
    run: Run, journal: Path, numbers: list[int], saved: list[dict[str, Any]]
) -> tuple[JournalTotals, Places, "array[int]"]:
    """Mend the needed segments and count their records."""
    spare = {
        number: Record(Kind.TOTALS, memoryview(packed), 0, 0)
        for number, packed in (facts[TOTALS] for facts in saved if TOTALS in facts)
    }
    parcels = defaultdict[int, "array[int]"](partial(array, "Q"))
    published = array("Q")
    # A run's first segment follows nothing. Its own totals may never have been finished.
    totals = JournalTotals(run.identity) if numbers == [1] else None
    blank = numbers[:1] == [1]  # a learner that dies before its first record leaves such a segment
    progress, link = SlowProgress("read segment %d of %d"), NO_LINK
    for number, found in segments.mend(journal, _first_needed(run.folder)):
        progress.report(number, numbers[-1])
        if isinstance(found, str):
            log.warning(found)
            continue
        blank, link = False, found.link
        if totals is None and found.kind is not Kind.TOTALS:
            totals = _spare_totals(spare.get(number), journal, number, numbers[-1])
        if totals is not None or found.kind is Kind.TOTALS:
            totals = counted(totals, found, f"segment {number}, byte {found.start}")
        if found.kind is Kind.MESSAGE:
            parcels[number].extend((found.start, found.end, totals.rows if totals else 0))
        elif found.kind is Kind.MARKER and totals is not None:
            published.extend((totals.marker.steps, totals.marker.updates))
    if totals is None and blank:
        totals = JournalTotals(run.identity)
    if totals is None:
        raise ConfigurationError(
            f"nothing in {journal} can be read: "
            f"--init {run.folder} starts another run from its weights"
        )
    totals.link = link
    return totals, parcels, published


def _first_needed(run_folder: Path) -> int:
    """Return the first segment that a checkpoint needs, or 0 if one of them cannot be read."""
    try:
        return needed_from(run_folder)
    except ConfigurationError:
        return 0


def _spare_totals(
    spare: Record | None, journal: Path, number: int, last: int
) -> JournalTotals | None:
    """Return a checkpoint's copy of a segment's damaged totals.

    Without a copy the next segment's totals serve, so return None, unless this one is the last.
    """
    path = segments.path_of(journal, number)
    if spare is not None:
        log.warning("%s: its totals are damaged; a checkpoint's copy is taken", path)
        return counted(None, spare, f"the totals of segment {number} in a checkpoint")
    if number == last:
        raise ConfigurationError(
            f"the journal cannot be resumed: {path}: the totals before it are lost, so nothing "
            "is known of earlier segments. --init starts another run from the weights of this one"
        )
    return None


def counted(totals: JournalTotals | None, found: Record, where: str) -> JournalTotals:
    """Count one more record. Totals that begin a segment are only needed once."""
    try:
        if found.kind is Kind.TOTALS:
            return JournalTotals.unpack(found) if totals is None else totals
        if totals is None:
            raise Refused("malformed", "the totals before it are lost")
        if found.kind is Kind.MESSAGE:
            envelope, opened = payloads.open_message(found.payload)
            totals.add_message(envelope, *payloads.counts_of(opened))
        else:
            totals.add(payloads.unpack(found))
    except Refused as refusal:
        raise ConfigurationError(f"the journal cannot be resumed: {where}: {refusal}") from refusal
    return totals


class SlowProgress:
    """Log lines for a recovery that takes long; a short one logs none."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._due = time.monotonic() + PROGRESS_S

    def report(self, count: int, total: int) -> None:
        """Log how far it is, if it is time for that."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + PROGRESS_S
            log.info(self._text, count, total)
