"""The journal thread: what the network took in is written and synced in groups; only then is it handed on and acknowledged."""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from farflung.common.data.parcel import Parcel
from farflung.common.data.weights import Weights
from farflung.common.process.errors import FarflungError
from farflung.common.process.exits import Exit
from farflung.common.protocol.wire import Envelope
from farflung.learner.endpoint.receiver import Accepted
from farflung.learner.storage.journal import format as form
from farflung.learner.storage.journal import payloads
from farflung.learner.storage.journal.disk import FULL, Disk
from farflung.learner.storage.journal.folder import Position
from farflung.learner.storage.journal.format import Kind, Payload
from farflung.learner.storage.journal.payloads import JournalTotals, Marker, Refusal
from farflung.learner.storage.journal.segments import Segments

log = logging.getLogger(__name__)

SEGMENT_BYTES = 64 << 20
GROUP_BYTES = 8 << 20  # of one commit
FULL_S = 1.0  # between two tries to find room on a full disk
IDLE_S = 0.5


class JournalFailure(FarflungError):
    """The disk did not do what it was asked for: nothing can be promised any more."""

    exit_code = Exit.DISK


class Entry(NamedTuple):
    """Something to write, and whom it concerns."""

    kind: Kind
    payload: Payload
    envelope: Envelope | None = None  # whose number is settled once this is durable
    parcel: Parcel | None = None  # what is handed on then
    rows: int = 0  # of it
    records: Refusal | Marker | None = None  # what the payload of a short record says


class Journal:
    """Everything that counts, on disk before anybody is told. Every method may be called from any thread.

    The queue in front of the disk needs no bound of its own: what is in it is unacknowledged, and credit bounds that.
    """

    def __init__(
        self,
        run: Path,  # the folder of the run
        table: JournalTotals,
        epoch: int,
        deliver: Callable[[list[tuple[Parcel, Position]]], None],
        *,
        durable: bool,  # whether it outlives a power cut (fsync), or only this process
        disk: Disk | None = None,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.problem = ""  # what is wrong now, for the screen
        self.waiting_rows = 0  # rows that are taken in and not handed on yet
        self._chain = Segments(run, table, epoch, disk or Disk(), segment_bytes, durable=durable)
        self._deliver = deliver
        self._entries: deque[Entry] = deque()
        self._settled: deque[Envelope] = deque()
        self._keep_from = 0  # segments below this number are not needed
        self._changed = threading.Condition()
        self._closing = self._busy = False
        self._failure: Exception | None = None
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(self._writable, False)
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    # ---- for the network thread

    def take(self, *parcels: Accepted) -> None:
        """Parcels that count: each is handed on and settled when it is durable."""
        self._put(
            *(
                Entry(
                    Kind.MESSAGE,
                    accepted.frame,
                    accepted.envelope,
                    accepted.parcel,
                    accepted.parcel.rows,
                )
                for accepted in parcels
            )
        )

    def refuse(self, envelope: Envelope, reason: str) -> None:
        """A number that is not taken: it is settled when that is durable."""
        refusal = Refusal(
            envelope.actor, envelope.incarnation, envelope.sequence, envelope.base, reason
        )
        self._put(Entry(Kind.REFUSAL, payloads.pack(refusal), envelope, records=refusal))

    def mark(self, weights: Weights) -> None:
        """A version goes out."""
        marker = Marker(weights.version, weights.steps, weights.updates)
        self._put(Entry(Kind.MARKER, payloads.pack(marker), records=marker))

    def fileno(self) -> int:
        """A descriptor that becomes readable when something is settled."""
        return self._readable

    def settled(self) -> list[Envelope]:
        """Whose numbers became durable since the last call: those may be acknowledged."""
        with suppress(BlockingIOError):
            os.read(self._readable, 4096)
        return [self._settled.popleft() for _ in range(len(self._settled))]

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything is written, or so long; gives whether it is."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not (self._entries or self._busy) or self._failure is not None, timeout_s
            )

    # ---- for training

    def check(self) -> None:
        """Raise what ended the thread, if anything did."""
        if self._failure is not None:
            raise JournalFailure(
                f"the journal in {self._chain.folder} cannot be written: {self._failure}. What is not acknowledged is still with the "
                f"actors; look after the disk, then start again"
            ) from self._failure

    @property
    def beginning(self) -> tuple[int, bytes]:
        """The newest segment's number, and the table that it begins with: what came before it."""
        return self._chain.beginning

    def forget_before(self, segment: int) -> None:
        """Segments below this number are needed by nothing any more."""
        with self._changed:
            self._keep_from = max(self._keep_from, segment)
            self._changed.notify_all()

    def close(self, timeout_s: float = 10.0) -> None:
        """Write what waits, and end the thread. On a full disk what waits stays with its actors."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        if not self._thread.is_alive():
            os.close(self._readable)
            os.close(self._writable)

    # ---- the thread

    def _put(self, *entries: Entry) -> None:
        with self._changed:
            self._entries.extend(entries)
            self.waiting_rows += sum(entry.rows for entry in entries)
            if (
                not self._busy
            ):  # else it looks again by itself, and waking it would only take time from this thread
                self._changed.notify_all()

    def _run(self) -> None:
        try:
            while self._wait():
                self._turn()
            self._chain.remove(self._keep_from)
            self._chain.newest.seal()
        except Exception as error:  # the top of a thread: training hears of it and ends; a sync that failed is never tried again
            log.critical("the journal ended: %s", error)
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _turn(self) -> None:
        self._commit()
        self._chain.remove(self._keep_from)

    def _wait(self) -> bool:
        """Until there is something to do; False when it is time to end."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            while not (self._entries or self._closing or self._chain.can_remove(self._keep_from)):
                self._changed.wait(IDLE_S)
            self._busy = True
            return not self._closing or (bool(self._entries) and not self.problem)

    def _commit(self) -> None:
        """One group: as much as waits and fits, written and synced together. The next one begins when this one has ended."""
        try:
            group = self._group()
            if not group:
                return
            self._chain.newest.append([(entry.kind, entry.payload) for entry in group])
        except OSError as error:
            if error.errno not in FULL:
                raise
            self._full(error)
            return
        self._chain.newest.sync()
        self._say_room()
        self._settle(group)

    def _group(self) -> list[Entry]:
        """What is written next, in order; it stays in the queue until it is durable."""
        group: list[Entry] = []
        used, room = 0, self._chain.newest.room
        for index in range(len(self._entries)):
            entry = self._entries[index]
            needed = form.size(len(entry.payload))
            if used + needed > room or (used and used + needed > GROUP_BYTES):
                break
            group.append(entry)
            used += needed
        if self._entries and not group:
            self._chain.roll(form.size(len(self._entries[0].payload)))
            return self._group()
        return group

    def _settle(self, group: list[Entry]) -> None:
        """What was written is durable: count it, hand it on, and let the network thread say so."""
        parcels: list[tuple[Parcel, Position]] = []
        for entry in group:
            end = self._chain.newest.confirm(entry.kind, entry.payload)
            self._count(entry)
            if entry.parcel is not None:
                parcels.append((entry.parcel, end))
        if parcels:
            self._deliver(parcels)
        with self._changed:
            for _ in group:
                self._entries.popleft()
            self.waiting_rows -= sum(entry.rows for entry in group)
        self._settled.extend(entry.envelope for entry in group if entry.envelope is not None)
        with suppress(BlockingIOError):  # a pipe that is full wakes as well
            os.write(self._writable, b"!")

    def _count(self, entry: Entry) -> None:
        table = self._chain.table
        if isinstance(entry.records, Marker):
            table.marker = entry.records
        elif isinstance(entry.records, Refusal):
            table.refusal(entry.records)
        elif entry.envelope is not None and entry.parcel is not None:
            episodes = 0 if entry.parcel.evaluation else len(entry.parcel.results.returns)
            table.message(entry.envelope, entry.rows, episodes)

    def _full(self, error: OSError) -> None:
        """There is no room: say so, and try again in a moment. Until then nothing is acknowledged, so actors pause."""
        if not self.problem:
            self.problem = self._chain.no_room(error)
            log.error(self.problem)
        with self._changed:
            self._changed.wait_for(lambda: self._closing, FULL_S)

    def _say_room(self) -> None:
        if self.problem:
            self.problem = ""
            log.warning("there is room for the journal in %s again", self._chain.folder)
