"""`learner audit`: reads what a run left on disk and says whether it adds up. Offline, read-only, without torch."""

import json
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol import receipts, wire
from farflung.common.protocol.inbox import Admission, InboxState
from farflung.learner.storage import manifest
from farflung.learner.storage.journal import folder, payloads
from farflung.learner.storage.journal.folder import Position
from farflung.learner.storage.journal.format import Damage, Kind, Record, Torn
from farflung.learner.storage.journal.payloads import JournalTotals, Marker, Refusal, Start
from farflung.learner.storage.manifest import POSITION, REPLAY_FROM

SHOWN = 20  # problems of one kind
Number = tuple[str, int, int]  # actor, incarnation, sequence


@dataclass(slots=True)
class Findings:
    """What an audit came to."""

    table: JournalTotals
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    records: Counter[Kind] = field(default_factory=Counter)
    starts: list[Start] = field(default_factory=list)
    kept: dict[Number, int] = field(
        default_factory=dict
    )  # each message in the journal by its checksum
    before: InboxState | None = None  # what came before the first segment that is still there
    again: int = 0  # records whose number was there already
    end: Position = folder.START


def audit(run: Path, against: Sequence[Path], actor: str, stream: TextIO) -> int:
    """Say what the journal and the checkpoints of a run hold; 0 only if everything adds up."""
    if not folder.numbers(run / folder.NAME):
        raise ConfigurationError(
            f"{run} has no journal: is it the folder of a run, with --durability fsync or process?"
        )
    findings = Findings(JournalTotals(""))
    for number, record in read(run / folder.NAME, findings):
        line = take(findings, number, record)
        if actor and line.startswith(f"{actor} "):
            stream.write(f"{line}\n")
    check_books(findings)
    check_checkpoints(run, findings)
    stream.writelines(f"{line}\n" for line in summary(run, findings))
    if against:
        stream.write(
            f"{compare(findings, [receipt for path in against for receipt in receipts.read(path)])}\n"
        )
    stream.writelines(f"note: {note}\n" for note in findings.notes)
    stream.writelines(f"problem: {problem}\n" for problem in findings.problems)
    stream.write(
        f"{len(findings.problems)} problems\n" if findings.problems else "everything holds\n"
    )
    return 1 if findings.problems else 0


def read(journal: Path, findings: Findings) -> Iterator[tuple[int, Record]]:
    """The records of all segments in order. What is no record, and what is not there, is noted."""
    numbers = folder.numbers(journal)
    if missing := sorted(set(range(numbers[0], numbers[-1])) - set(numbers)):
        findings.problems.append(f"segments are missing: {', '.join(map(str, missing))}")
    for number, found in folder.read(journal):
        if isinstance(found, Record):
            findings.end = Position(number, found.end)
            yield number, found
        elif isinstance(found, Torn) and number == numbers[-1]:
            findings.notes.append(
                f"segment {number}: a torn tail from byte {found.start} on; nobody was told of what is in it"
            )
        else:
            assert isinstance(found, Damage | Torn)
            findings.problems.append(
                f"segment {number}: bytes {found.start} to {found.end} are damaged"
            )


def take(findings: Findings, segment: int, record: Record) -> str:
    """Count a record; gives a line about it if it is an actor's."""
    findings.records[record.kind] += 1
    where = f"segment {segment}, byte {record.start}"
    try:
        if record.kind is Kind.TABLE:
            take_table(findings, payloads.read_table(record), where)
        elif record.kind is Kind.MESSAGE:
            return take_message(findings, record, where)
        else:
            return take_short(findings, payloads.read(record), where)
    except Refused as refusal:
        findings.problems.append(f"{where}: {refusal}")
    return ""


def take_table(findings: Findings, table: JournalTotals, where: str) -> None:
    """The first table says what came before; every later one must agree with what was read."""
    if findings.before is None:
        findings.before, findings.table = table.inbox.state(), table
        if rows := table.rows:
            findings.notes.append(f"{where}: {rows} rows came in earlier segments, which are gone")
    elif payloads.pack_table(table) != payloads.pack_table(findings.table):
        findings.problems.append(
            f"{where}: the segment begins with other counts than the records before it come to"
        )


def take_message(findings: Findings, record: Record, where: str) -> str:
    """A parcel: it must be of this run, and its number must be new."""
    envelope, opened = payloads.read_message(record.payload)
    rows, episodes = payloads.counts_of(opened)
    number = envelope.actor, envelope.incarnation, envelope.sequence
    if envelope.run != findings.table.run:
        findings.problems.append(f"{where}: a message of the run {envelope.run}")
    admission = findings.table.message(envelope, rows, episodes)
    if admission is Admission.DUPLICATE:
        findings.again += 1
        findings.problems.append(f"duplicated: {name(number)} is there again, {where}")
    elif admission is Admission.BEYOND:
        findings.problems.append(f"{where}: {name(number)} is a number that no honest actor sends")
    findings.kept[number] = wire.checksum(record.payload)
    return f"{name(number)}: {rows} rows under version {envelope.version}, {record.end - record.start} bytes, {where}"


def take_short(findings: Findings, said: Start | Refusal | Marker, where: str) -> str:
    """A start, a marker, or a number that was refused."""
    if isinstance(said, Marker):
        findings.table.marker = said
    elif isinstance(said, Start):
        if findings.starts and said.epoch <= findings.starts[-1].epoch:
            findings.problems.append(
                f"{where}: epoch {said.epoch} begins after epoch {findings.starts[-1].epoch}"
            )
        findings.starts.append(said)
        findings.table.inbox.epoch = said.epoch
    else:
        number = said.actor, said.incarnation, said.sequence
        if findings.table.refusal(said) is not Admission.NEW:
            findings.again += 1
            findings.problems.append(
                f"duplicated: {name(number)} is refused although it is there already, {where}"
            )
        return f"{name(number)}: refused ({said.reason}), {where}"
    return ""


def check_books(findings: Findings) -> None:
    """What was counted must be what is there."""
    ledger, inbox = findings.table.inbox.ledger, findings.table.inbox
    if not ledger.balanced:
        findings.problems.append(f"the ledger does not balance: {ledger}")
    if inbox.lost:
        findings.problems.append(
            f"{inbox.lost} numbers are no longer held by their actors and never arrived"
        )


def check_checkpoints(run: Path, findings: Findings) -> None:
    """Each complete checkpoint must be whole, and the journal must reach to it and hold what its replay needs."""
    first = folder.numbers(run / folder.NAME)[0]
    for checkpoint in manifest.kept(run):
        try:
            facts = manifest.facts(run, checkpoint)
            check_tensors(run / manifest.FOLDER / checkpoint / manifest.TENSORS)
            place = Position(*facts[POSITION]) if POSITION in facts else folder.START
        except (ConfigurationError, TypeError) as error:
            findings.problems.append(f"checkpoint {checkpoint}: {error}")
            continue
        if place > findings.end:
            findings.problems.append(
                f"checkpoint {checkpoint} is at {place}, and the journal ends at {findings.end}"
            )
        if place != folder.START and first > min(place.segment, facts.get(REPLAY_FROM, 0)):
            findings.problems.append(
                f"checkpoint {checkpoint} needs segment {facts.get(REPLAY_FROM)}, and the first one is {first}"
            )


def check_tensors(path: Path) -> None:
    """Whether a file of tensors is as long as it says."""
    try:
        data = path.read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        table = json.loads(data[8 : 8 + length])
        ends = [entry["data_offsets"][1] for key, entry in table.items() if key != "__metadata__"]
    except (
        OSError,
        struct.error,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        RecursionError,
    ) as error:
        raise ConfigurationError(f"{path.name} cannot be read: {error}") from error
    if 8 + length + max(ends, default=0) != len(data):
        raise ConfigurationError(
            f"{path.name} has {len(data)} bytes, not {8 + length + max(ends, default=0)}"
        )


def compare(findings: Findings, told: Sequence[receipts.Receipt]) -> str:
    """Hold the journal against what actors were told is safe."""
    ours = [receipt for receipt in told if receipt.run == findings.table.run]
    missing, changed, gone = [], [], 0
    for receipt in ours:
        number = receipt.actor, receipt.incarnation, receipt.sequence
        found = findings.kept.get(number)
        if found is None and was_before(findings, number):
            gone += 1
        elif found is None:
            missing.append(number)
        elif found != receipt.checksum:
            changed.append(number)
    findings.problems += [
        f"lost: {name(number)} was acknowledged and is not in the journal"
        for number in missing[:SHOWN]
    ]
    findings.problems += [
        f"changed: {name(number)} is in the journal with other bytes" for number in changed[:SHOWN]
    ]
    if gone:
        findings.problems.append(
            f"{gone} acknowledged parcels are in segments that are gone: only with --keep-journal can they be compared"
        )
    others = f" ({len(told) - len(ours)} of other runs)" if len(told) > len(ours) else ""
    return f"acknowledged: {len(ours)}{others}; lost: {len(missing)}; duplicated: {findings.again}; changed: {len(changed)}"


def was_before(findings: Findings, number: Number) -> bool:
    """Whether a number was kept in a segment that is gone."""
    actor, incarnation, sequence = number
    lives = findings.before["lives"] if findings.before is not None else []
    own = (life for life in lives if (life["actor"], life["incarnation"]) == (actor, incarnation))
    return any(sequence <= life["kept"] or sequence in life["beyond"] for life in own)


def summary(run: Path, findings: Findings) -> Iterator[str]:
    """The figures, for people."""
    table, records = findings.table, findings.records
    yield f"run {table.run} in {run}: {len(findings.starts)} lives of the learner, newest epoch {table.inbox.epoch}"
    yield (
        f"journal: segments {folder.numbers(run / folder.NAME)[0]} to {findings.end.segment}, {sum(records.values())} records: "
        f"{records[Kind.MESSAGE]} messages, {records[Kind.REFUSAL]} refusals, {records[Kind.MARKER]} markers"
    )
    marker = table.marker
    yield f"{table.rows} rows, {table.episodes} episodes; newest version {marker.version}, after {marker.updates} updates"
    lives = table.inbox.state()["lives"]
    yield f"actors: {len({life['actor'] for life in lives})}, incarnations: {len(lives)}"
    for life in lives:
        highest = max([life["kept"], *life["beyond"]])
        gaps = highest - life["kept"] - len(life["beyond"])
        yield f"  {life['actor']} {life['incarnation']:016x}: up to {highest}, {gaps} gaps (numbers that its actor still holds)"
    ledger = table.inbox.ledger
    yield f"ledger: received {ledger.received} = accepted {ledger.accepted} + duplicate {ledger.duplicate} + refused {ledger.refused}"
    yield f"checkpoints: {', '.join(manifest.kept(run)) or 'none'}"


def name(number: Number) -> str:
    """A number as people read it."""
    actor, incarnation, sequence = number
    return f"{actor} {incarnation:016x} {sequence}"
