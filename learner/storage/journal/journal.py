"""The journal thread: parcels are delivered and acknowledged once they are on disk."""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from farflung.common.data.parcel import Parcel
from farflung.common.data.weights import Weights
from farflung.common.process import atomic_file, descriptors
from farflung.common.protocol.roster import Member
from farflung.common.protocol.spans import Tracer
from farflung.learner.endpoint.items import Deliver, LoggedItem, holds_parcel
from farflung.learner.storage.journal import payloads, segments
from farflung.learner.storage.journal.disk import FULL, Disk, DiskFailure
from farflung.learner.storage.journal.log import Log
from farflung.learner.storage.journal.payloads import Joined, Marker, Refusal, Short
from farflung.learner.storage.journal.record import Kind, Payload, Position
from farflung.learner.storage.journal.totals import JournalTotals

log = logging.getLogger(__name__)

SEGMENT_BYTES = 64 << 20
FULL_S = 1.0  # between two attempts on a full disk
EXHAUSTED_S = 0.1  # and while no file descriptor is free, which passes sooner
IDLE_S = 0.5


class Entry(NamedTuple):
    """A record that waits to be written."""

    kind: Kind
    payload: Payload
    content: Parcel | Short
    item: LoggedItem | None = None  # settled once the record is durable

    @property
    def rows(self) -> int:
        """Rows that are delivered with it."""
        return self.content.rows if isinstance(self.content, Parcel) else 0


class Journal:
    """The write-ahead log of a run. Any thread may call any method.

    The queue in front of the disk has no bound of its own: the receiver admits no more than the
    credit that it granted, and than the buffer takes that all peers share.
    """

    def __init__(
        self,
        run_folder: Path,
        totals: JournalTotals,
        epoch: int,
        deliver: Deliver,
        *,
        durable: bool,  # survives a power cut, by fsync; else a kill of this process only
        keep: bool = False,  # every segment, for ever
        disk: Disk | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        spans: Tracer | None = None,
    ) -> None:
        self.problem = ""  # a sentence, while nothing can be written
        self.waiting_rows = 0  # rows that are not delivered yet
        self._log = Log(run_folder, totals, epoch, disk or Disk(), segment_bytes, durable=durable)
        self._wrote_s = 0.0  # in which the disk was written, synced, or waited for
        self._writes_since: float | None = None
        self._deliver, self._keep, self._spans = deliver, keep, spans or Tracer()
        self._entries: deque[Entry] = deque()
        self._needed_from = 0  # segments below this number are not needed
        self._synced_to = 0  # segments below this number survive a power cut
        self._changed = threading.Condition()
        self._closing = self._busy = False
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    # ---- for the network thread

    def append(self, items: Sequence[LoggedItem]) -> None:
        """Write these items. Each is settled when it is durable, and a parcel delivered before."""
        self._put(*map(_entry, items))

    def mark(self, weights: Weights) -> None:
        """Write that a version was published."""
        marker = Marker(weights.version, weights.steps, weights.updates)
        self._put(Entry(Kind.MARKER, payloads.pack(marker), marker))

    def note_place(self, member: Member) -> None:
        """Write the place of an actor that plays rounds."""
        joined = Joined(member.actor, member.incarnation, member.index, member.start)
        self._put(Entry(Kind.JOINED, payloads.pack(joined), joined))

    @property
    def disk_s(self) -> float:
        """The seconds so far in which the disk was written, synced, or waited for."""
        with self._changed:
            since = self._writes_since
            return self._wrote_s + (0.0 if since is None else time.monotonic() - since)

    def drain(self, timeout_s: float) -> bool:
        """Wait for an idle thread, a failure or the time; return True if all is written."""
        with self._changed:
            idle = self._changed.wait_for(
                lambda: not (self._entries or self._busy) or self._failure is not None, timeout_s
            )
            return idle and self._failure is None

    # ---- for the training thread and the thread that writes checkpoints

    def check(self) -> None:
        """Raise the error that ended the thread, if one did."""
        if self._failure is not None:
            raise DiskFailure(
                f"the journal in {self._log.folder} cannot be written: {self._failure}. The "
                "actors still hold all that is not acknowledged; check the disk, then start again"
            ) from self._failure

    @property
    def beginning(self) -> tuple[int, bytes]:
        """The newest segment's number, and the totals that it begins with."""
        return self._log.beginning

    def sync_to(self, last: int) -> None:
        """Make the segments up to this one survive a power cut, at any durability.

        A checkpoint refers to them. Segments that were synced before are passed over, except for
        the newest one of that time, which has grown.
        """
        for number in segments.numbers(self._log.folder):
            if self._synced_to <= number <= last:
                atomic_file.sync(segments.path_of(self._log.folder, number))
        atomic_file.sync(self._log.folder)
        self._synced_to = last

    def forget_before(self, segment: int) -> None:
        """Remove the segments below this number, unless all are kept: nothing needs them."""
        if self._keep:
            return
        with self._changed:
            self._needed_from = max(self._needed_from, segment)
            self._changed.notify_all()

    def close(self, timeout_s: float = 10.0) -> None:
        """Write what waits, and end the thread. If the disk is full, the actors keep the rest."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    # ---- the thread

    def _put(self, *entries: Entry) -> None:
        with self._changed:
            self._entries.extend(entries)
            self.waiting_rows += sum(entry.rows for entry in entries)
            if not self._busy:  # a busy thread checks again by itself; waking it costs time
                self._changed.notify_all()

    def _run(self) -> None:
        try:
            while self._wait():
                with self._spans.span("journal"):
                    self._turn()
            self._log.remove(self._needed_from)
            self._log.seal()
        except Exception as error:  # the top of a thread; a failed sync is never tried again
            log.critical("the journal ended: %s", error)
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _wait(self) -> bool:
        """Wait for something to do; return False when it is time to end."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            while not (self._entries or self._closing or self._log.can_remove(self._needed_from)):
                self._changed.wait(IDLE_S)
            self._busy = True
            return not self._closing or (bool(self._entries) and not self.problem)

    def _turn(self) -> None:
        """Write and sync one group, as much as waits and fits; then remove old segments.

        What arrives meanwhile is the next group. An entry leaves the queue when it is durable.
        """
        with self._changed:
            waiting = list(self._entries)
            begun = self._writes_since = time.monotonic()
        try:
            ends = self._log.append([(entry.kind, entry.payload) for entry in waiting])
        except OSError as error:
            if error.errno not in (*FULL, *descriptors.EXHAUSTED):
                raise
            self._wait_for_room(error)
            ends = []
        if ends:
            self._sync()
            self._report_room()
        with self._changed:
            self._wrote_s += time.monotonic() - begun
            self._writes_since = None
        if ends:
            self._settle(waiting[: len(ends)], ends)
        self._log.remove(self._needed_from)

    def _sync(self) -> None:
        with self._spans.span("sync"):
            self._log.sync()

    def _settle(self, group: list[Entry], ends: list[Position]) -> None:
        """Count, deliver and settle a group, which is durable now."""
        items = []
        for entry, end in zip(group, ends, strict=True):
            self._count(entry)
            if entry.item is not None:
                entry.item.end, entry.item.frame = end, b""
                items.append(entry.item)
        if parcels := [item for item in items if holds_parcel(item)]:
            self._deliver(parcels)
        with self._changed:
            for _ in group:
                self._entries.popleft()
            self.waiting_rows -= sum(entry.rows for entry in group)
        for item in items:
            item.settle()

    def _count(self, entry: Entry) -> None:
        totals, content = self._log.totals, entry.content
        if not isinstance(content, Parcel):
            totals.add(content)
        elif entry.item is not None:
            episodes = 0 if content.evaluation else len(content.results.returns)
            totals.add_message(entry.item.envelope, content.rows, episodes)

    def _wait_for_room(self, error: OSError) -> None:
        """Report a full disk, or that no file descriptor is free, and wait a moment.

        Nothing is acknowledged meanwhile, so the actors pause.
        """
        exhausted = descriptors.exhausted(error)
        if not self.problem:
            self.problem = self._log.no_file(error) if exhausted else self._log.no_room(error)
            log.error(self.problem)
        with self._changed:
            self._changed.wait_for(lambda: self._closing, EXHAUSTED_S if exhausted else FULL_S)

    def _report_room(self) -> None:
        if self.problem:
            self.problem = ""
            log.warning("the journal in %s continues", self._log.folder)


def _entry(item: LoggedItem) -> Entry:
    """Return an item's record: the message as received, or the refusal of its number."""
    content, envelope = item.content, item.envelope
    if isinstance(content, Parcel):
        return Entry(Kind.MESSAGE, item.frame, content, item)
    number = envelope.actor, envelope.incarnation, envelope.sequence
    refusal = Refusal(*number, envelope.base, content.reason)
    return Entry(Kind.REFUSAL, payloads.pack(refusal), refusal, item)
