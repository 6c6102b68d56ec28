"""The audit names a journal that does not hold what was written, in the order of writing."""

import io
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from zlib import crc32

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.learner_epoch import next_epoch

from farflung.common.data.weights import Version
from farflung.common.protocol import wire
from farflung.learner.storage import manifest
from farflung.learner.storage.audit import audit
from farflung.learner.storage.journal import payloads, record, segments
from farflung.learner.storage.journal.payloads import Marker
from farflung.learner.storage.journal.record import Kind


@dataclass(frozen=True)
class Written:
    """A record of a journal, written again with a checksum that is good."""

    segment: int
    kind: Kind
    payload: bytes
    follows: bytes | None


def records_of(run: Path) -> list[Written]:
    """Return all records of a journal."""
    return [
        Written(number, found.kind, bytes(found.payload), found.follows)
        for number, found in segments.read(run / segments.FOLDER)
    ]


def rewrite(run: Path, records: list[Written], magic: bytes = record.MAGIC) -> None:
    """Write these records in place of a journal's, each with its segment's salt and a checksum.

    A record that is as it was and where it was has the same bytes again.
    """
    for number in segments.numbers(run / segments.FOLDER):
        path = segments.path_of(run / segments.FOLDER, number)
        _, _, salt = record.HEADER.unpack_from(path.read_bytes())
        own = [
            record.encode(salt, one.kind, one.payload, one.follows or record.NO_LINK)
            for one in records
            if one.segment == number
        ]
        pieces = [piece for one in own for piece in one]
        path.write_bytes(record.header(number, salt, magic) + b"".join(map(bytes, pieces)))


def swapped(records, at):
    """Swap a record and the next one, within its segment."""
    one, other = records[at : at + 2]
    pair = replace(other, segment=one.segment), replace(one, segment=other.segment)
    return [*records[:at], *pair, *records[at + 2 :]]


def doubled(records, at):
    """Write a record twice."""
    return [*records[: at + 1], *records[at:]]


def dropped(records, at):
    """Leave a record out."""
    return [*records[:at], *records[at + 1 :]]


def moved(records, at):
    """Move a record to the end of another segment."""
    one = records[at]
    last = max(record.segment for record in records)
    target = next(number for number in (last, last - 1) if number != one.segment)
    return [*dropped(records, at), replace(one, segment=target)]


def edited(records, at):
    """Change a record's content so that it can still be read."""
    one = records[at]
    payload = payloads.pack(Marker(Version(9, 9), 10**6, 10**6))
    if one.kind is Kind.MESSAGE:
        frame = bytearray(one.payload)
        frame[-1] ^= 1
        checksum = crc32(frame[wire.HEAD :], crc32(frame[: wire.PREAMBLE.size]))
        record.CHECKSUM.pack_into(frame, wire.PREAMBLE.size, checksum)
        payload = bytes(frame)
    return [*records[:at], replace(one, payload=payload), *records[at + 1 :]]


def audited(run: Path) -> tuple[int, str]:
    """Audit a run; return the exit code and the report."""
    stream = io.StringIO()
    return audit(run, (), "", stream), stream.getvalue()


@pytest.fixture
def run(first_epoch):
    """A run of two epochs with several segments and a checkpoint."""
    epoch, _ = next_epoch(first_epoch)
    epoch.receive(20, 21, 22, 23)
    epoch.journal.mark(epoch.core.publish())
    epoch.receive(24, 25)
    epoch.end()
    folder = first_epoch.run.folder
    assert audited(folder)[0] == 0, audited(folder)[1]
    return folder


def middle(records):
    """Return the place of a parcel between two others of its segment."""
    places = range(1, len(records) - 1)
    around = {at: {(one.kind, one.segment) for one in records[at - 1 : at + 2]} for at in places}
    return next(at for at in places if len(around[at]) == 1 and records[at].kind is Kind.MESSAGE)


FAULTS = {"swap": swapped, "double": doubled, "drop": dropped, "move": moved, "edit": edited}


@pytest.mark.parametrize("name", FAULTS)
def test_audit_names_a_record_that_was_not_written_there(run, name):
    """One sentence says between which bytes the fault is, and the exit code is 1."""
    records = records_of(run)
    at = middle(records)
    segment = records[at].segment
    rewrite(run, FAULTS[name](records, at))
    code, said = audited(run)
    assert code == 1
    assert said.count("one is missing, changed, moved or there again") >= 1
    assert f"problem: journal {segment}:" in said


@pytest.mark.parametrize("kind", [Kind.MESSAGE, Kind.MARKER])
def test_two_neighbours_that_were_swapped_are_one_sentence(run, kind):
    """Nothing else differs after the newest checkpoint: the ledger and all totals are the same."""
    records = records_of(run)
    pairs = enumerate(pairwise(records))
    at = max(
        at
        for at, (one, other) in pairs
        if (one.kind, other.kind, one.segment) == (kind, Kind.MESSAGE, other.segment)
    )
    rewrite(run, swapped(records, at))
    code, said = audited(run)
    assert code == 1
    assert said.count("problem: ") == 1, said
    assert "in their order" in said


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)
@given(st.data())
def test_audit_names_any_change_of_a_journal(run, data):
    """Every fault at every record, but for one: no record follows the newest one and covers it."""
    records = records_of(run)
    name = data.draw(st.sampled_from(sorted(FAULTS)))
    wanting = 0 if name == "double" else 1
    at = data.draw(st.integers(0, len(records) - 1 - wanting))
    rewrite(run, FAULTS[name](records, at))
    code, _ = audited(run)
    rewrite(run, records)
    assert (name, at, code) == (name, at, 1)
    assert audited(run)[0] == 0


def test_journal_of_an_older_release_has_the_order_of_its_checkpoints(first_epoch):
    """Its records have no links. It is resumed, and the next segments have links again."""
    folder, records = first_epoch.run.folder, records_of(first_epoch.run.folder)
    path = folder / manifest.FOLDER / "000001" / manifest.FACTS
    facts = msgpack.unpackb(path.read_bytes())
    del facts[manifest.REPLAY_ROWS]
    path.write_bytes(msgpack.packb(facts))
    rewrite(folder, records, record.UNLINKED_MAGIC)
    code, said = audited(folder)
    assert code == 0, said
    rewrite(folder, swapped(records, middle(records)), record.UNLINKED_MAGIC)
    code, said = audited(folder)
    assert code == 1
    assert "checkpoint 000001: its replay was" in said
    rewrite(folder, records, record.UNLINKED_MAGIC)
    epoch, _ = next_epoch(first_epoch)
    epoch.receive(20, 21)
    epoch.end()
    code, said = audited(folder)
    assert code == 0, said
    assert [one.follows is None for one in records_of(folder)].index(False) == len(records)


def test_totals_and_list_of_checkpoints_are_compared(run):
    """A checkpoint has a copy of a segment's totals, and the manifest an order."""
    path = run / manifest.FOLDER / "000001" / manifest.FACTS
    facts = msgpack.unpackb(path.read_bytes())
    facts[manifest.TOTALS][1] += b" "
    path.write_bytes(msgpack.packb(facts))
    (run / manifest.MANIFEST).write_text("000001\n000001\n")
    code, said = audited(run)
    assert code == 1
    assert "begins with other totals than it had then" in said
    assert "not in their order" in said
