"""`learner audit`: read a run's folder and check that its parts agree. Read-only, without torch."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol import receipts, wire
from farflung.common.protocol.inbox import Admission, Inbox
from farflung.learner.storage import audit_checkpoints, manifest
from farflung.learner.storage.audit_checkpoints import Parcels
from farflung.learner.storage.journal import payloads, segments
from farflung.learner.storage.journal.order import Order
from farflung.learner.storage.journal.payloads import Joined, Marker, Refusal, Short, Start
from farflung.learner.storage.journal.record import Damage, Kind, Position, Record
from farflung.learner.storage.journal.totals import JournalTotals

SHOWN = 20  # problems of one kind, and incarnations
Number = tuple[str, int, int]  # actor, incarnation, sequence


def audit(run: Path, against: Sequence[Path], actor: str, stream: TextIO) -> int:
    """Report on the journal and checkpoints of a run. Return 0 only if everything adds up."""
    if not segments.numbers(run / segments.FOLDER):
        raise ConfigurationError(
            f"{run} has no journal: is it the folder of a run with --durability fsync or process?"
        )
    found = Audit(run)
    for line in found.read():
        if actor and line.startswith(f"{actor} "):
            stream.write(f"{line}\n")
    found.check_totals()
    found.check_checkpoints()
    stream.writelines(f"{line}\n" for line in found.summary())
    if against:
        given = [receipt for path in against for receipt in receipts.read(path)]
        stream.write(f"{found.compare(given)}\n")
    stream.writelines(f"note: {note}\n" for note in found.notes)
    stream.writelines(f"problem: {problem}\n" for problem in found.problems)
    count = len(found.problems)
    stream.write(f"{count} problems\n" if count else "no problems\n")
    return 1 if count else 0


class Audit:
    """The findings of an audit so far."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.totals = JournalTotals("")  # of the records so far
        self.records: Counter[Kind] = Counter()
        self.starts: list[Start] = []
        self._journal = run / segments.FOLDER
        self._before: Inbox | None = None  # of removed segments
        self._checksums: dict[Number, int] = {}  # of the messages in the journal
        self._duplicates = 0
        self._parcels = Parcels()

    # ---- the journal

    def read(self) -> Iterator[str]:
        """Read and count all records; yield a line for each one of an actor."""
        numbers = segments.numbers(self._journal)
        if missing := sorted(set(range(numbers[0], numbers[-1])) - set(numbers)):
            self.problems.append(f"segments are missing: {', '.join(map(str, missing))}")
        order = Order(numbers[0])
        for number, found in segments.read(self._journal):
            if isinstance(found, Record):
                self._parcels.end = Position(number, found.end)
                self._note(order.follow(number, found))
                if line := self.count(number, found):
                    yield line
            else:
                order.skip()
                self._note_damage(number, found, torn=found.torn and number == numbers[-1])
        self._note(order.end())

    def _note(self, problem: str) -> None:
        if problem:
            self.problems.append(problem)

    def _note_damage(self, number: int, damage: Damage, *, torn: bool) -> None:
        if torn:
            self.notes.append(
                f"segment {number}: a torn tail from byte {damage.start} on; "
                "nothing in it was acknowledged"
            )
        else:
            self.problems.append(
                f"segment {number}: bytes {damage.start} to {damage.end} are damaged"
            )

    def count(self, segment: int, record: Record) -> str:
        """Count a record. Return a line about it if it is an actor's."""
        self.records[record.kind] += 1
        where = f"segment {segment}, byte {record.start}"
        try:
            if record.kind is Kind.TOTALS:
                self._parcels.totals[segment] = bytes(record.payload)
                self._count_totals(JournalTotals.unpack(record), where)
            elif record.kind is Kind.MESSAGE:
                return self._count_message(segment, record, where)
            else:
                return self._count_short(payloads.unpack(record), where)
        except Refused as refusal:
            self.problems.append(f"{where}: {refusal}")
        return ""

    def _count_totals(self, totals: JournalTotals, where: str) -> None:
        """Start from the first segment's totals; compare those of later ones with the count."""
        if self._before is None:
            self._before, self.totals = Inbox.restore(totals.inbox.state()), totals
            if totals.rows:
                self.notes.append(f"{where}: {totals.rows} rows were in segments that are gone")
        elif totals.pack() != self.totals.pack():
            self.problems.append(
                f"{where}: the segment begins with other totals than those of the records before it"
            )

    def _count_message(self, segment: int, record: Record, where: str) -> str:
        """Count a parcel. It must be of this run, and its number must be new."""
        envelope, opened = payloads.open_message(record.payload)
        rows, episodes = payloads.counts_of(opened)
        number = envelope.actor, envelope.incarnation, envelope.sequence
        if envelope.run != self.totals.run:
            self.problems.append(f"{where}: a message of the run {envelope.run}")
        admission = self.totals.add_message(envelope, rows, episodes)
        if admission is Admission.DUPLICATE:
            self._duplicates += 1
            self.problems.append(f"duplicated: {name(number)} is there again, {where}")
        elif admission is Admission.BEYOND:
            self.problems.append(f"{where}: {name(number)} is a number that no honest actor sends")
        self._checksums[number] = wire.checksum(record.payload)
        self._parcels.add(segment, record.end, record.payload, rows)
        return (
            f"{name(number)}: {rows} rows under version {envelope.version}, "
            f"{record.end - record.start} bytes, {where}"
        )

    def _count_short(self, content: Short, where: str) -> str:
        """Count a start, a marker, a place or a refusal."""
        before = self.totals.marker
        admission = self.totals.add(content)
        if isinstance(content, Marker):
            self._check_marker(content, before, where)
            return ""
        if isinstance(content, Start):
            if self.starts and content.epoch <= self.starts[-1].epoch:
                self.problems.append(
                    f"{where}: epoch {content.epoch} starts after epoch {self.starts[-1].epoch}"
                )
            self.starts.append(content)
            return ""
        if isinstance(content, Joined):
            return ""
        return self._line_of_refusal(content, admission, where)

    def _check_marker(self, marker: Marker, before: Marker, where: str) -> None:
        """Check that versions, steps and updates only grow."""
        falls = marker.steps < before.steps or marker.updates < before.updates
        if falls or marker.version <= before.version:
            self.problems.append(
                f"{where}: version {marker.version}, after {marker.updates} updates, is published "
                f"after version {before.version}, after {before.updates}"
            )

    def _line_of_refusal(self, refusal: Refusal, admission: Admission, where: str) -> str:
        number = refusal.actor, refusal.incarnation, refusal.sequence
        if admission is not Admission.NEW:
            self._duplicates += 1
            self.problems.append(
                f"duplicated: {name(number)} is refused although it is there already, {where}"
            )
        return f"{name(number)}: refused ({refusal.reason}), {where}"

    # ---- checks

    def check_totals(self) -> None:
        """Check that the ledger balances; note what actors gave up, which is only their word."""
        inbox = self.totals.inbox
        if not inbox.ledger.balanced:
            self.problems.append(f"the ledger does not balance: {inbox.ledger}")
        if inbox.lost:
            self.notes.append(
                f"{inbox.lost} numbers never arrived, and their actors say that they hold them no "
                "longer: only receipts show whether they were acknowledged (--against)"
            )

    def check_checkpoints(self) -> None:
        """Check that each checkpoint is whole and that the journal holds what it needs."""
        first = segments.numbers(self._journal)[0]
        self.problems += audit_checkpoints.problems(self.run, first, self._parcels)

    def compare(self, given: Sequence[receipts.Receipt]) -> str:
        """Compare the journal with the receipts of actors; return a line of counts."""
        ours = [receipt for receipt in given if receipt.run == self.totals.run]
        missing, changed, gone = list[Number](), list[Number](), 0
        for receipt in ours:
            number = receipt.actor, receipt.incarnation, receipt.sequence
            found = self._checksums.get(number)
            if found is None and self._was_before(number):
                gone += 1
            elif found is None:
                missing.append(number)
            elif found != receipt.checksum:
                changed.append(number)
        for number in missing[:SHOWN]:
            self.problems.append(f"lost: {name(number)} was acknowledged and is not in the journal")
        for number in changed[:SHOWN]:
            self.problems.append(f"changed: {name(number)} is in the journal with other bytes")
        if gone:
            self.problems.append(
                f"{gone} acknowledged parcels are in segments that are gone: "
                "only with --keep-journal can they be compared"
            )
        others = f" ({len(given) - len(ours)} of other runs)" if len(given) > len(ours) else ""
        return (
            f"acknowledged: {len(ours)}{others}; lost: {len(missing)}; "
            f"duplicated: {self._duplicates}; changed: {len(changed)}"
        )

    def _was_before(self, number: Number) -> bool:
        """Return whether a number was in a removed segment."""
        return self._before is not None and self._before.has(*number)

    def summary(self) -> Iterator[str]:
        """Yield lines about run, journal, actors, ledger and checkpoints."""
        totals, records, end = self.totals, self.records, self._parcels.end
        yield (
            f"run {totals.run} in {self.run}: the learner started {len(self.starts)} times, "
            f"newest epoch {totals.inbox.epoch}"
        )
        yield (
            f"journal: segments {segments.numbers(self._journal)[0]} to {end.segment}, "
            f"{sum(records.values())} records: {records[Kind.MESSAGE]} messages, "
            f"{records[Kind.REFUSAL]} refusals, {records[Kind.MARKER]} markers"
        )
        marker = totals.marker
        yield (
            f"{totals.rows} rows, {totals.episodes} episodes; "
            f"newest version {marker.version}, after {marker.updates} updates"
        )
        yield from self._incarnations()
        ledger = totals.inbox.ledger
        yield (
            f"ledger: received {ledger.received} = accepted {ledger.accepted} "
            f"+ duplicate {ledger.duplicate} + refused {ledger.refused}"
        )
        yield f"checkpoints: {', '.join(manifest.kept(self.run)) or 'none'}"

    def _incarnations(self) -> Iterator[str]:
        known = self.totals.inbox.state()["live"]
        _, retired = self.totals.inbox.incarnations
        yield (
            f"actors: {len({it['actor'] for it in known})}, "
            f"incarnations: {len(known)} live, {retired} retired"
        )
        for it in known[:SHOWN]:
            highest = max([it["contiguous"], *it["out_of_order"]])
            gaps = highest - it["contiguous"] - len(it["out_of_order"])
            yield (
                f"  {it['actor']} {it['incarnation']:016x}: up to {highest}, "
                f"{gaps} gaps (numbers that its actor still holds)"
            )
        if len(known) > SHOWN:
            yield f"  and {len(known) - SHOWN} more"


def name(number: Number) -> str:
    """Return a number as people read it."""
    actor, incarnation, sequence = number
    return f"{actor} {incarnation:016x} {sequence}"
