"""The audit names every parcel that is lost, doubled, changed or missing on disk."""

import io
import json
import struct

import msgpack
import pytest
from support.makers import a_frame, a_spec

from farflung.common.data.weights import Version
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol import receipts, wire
from farflung.learner.storage import manifest
from farflung.learner.storage.audit import SHOWN, audit
from farflung.learner.storage.journal import payloads, record, segments
from farflung.learner.storage.journal.payloads import Marker, Refusal, Start
from farflung.learner.storage.journal.record import Kind
from farflung.learner.storage.journal.totals import JournalTotals
from farflung.learner.storage.manifest import POSITION, REPLAY_FROM

SALT = b"salt"
RUN = "run-1"


@pytest.fixture
def message():
    """Make records of parcels."""
    spec = a_spec()
    return lambda sequence, **changes: (
        Kind.MESSAGE,
        a_frame(spec, sequence=sequence, **changes),
    )


@pytest.fixture
def audited(tmp_path):
    """Audit the run; return the exit code and the report."""

    def run(*files, actor=""):
        stream = io.StringIO()
        return audit(tmp_path, files, actor, stream), stream.getvalue()

    return run


def write(run, number, *records, totals=None):
    """Write a segment as the journal does."""
    first = (Kind.TOTALS, (totals or JournalTotals(RUN)).pack())
    (run / segments.FOLDER).mkdir(exist_ok=True)
    before = [found for at, found in segments.read(run / segments.FOLDER) if at < number]
    link = before[-1].link if before else record.NO_LINK
    data = record.header(number, SALT)
    for one in (first, *records):
        pieces = record.encode(SALT, *one, link)
        data, link = data + b"".join(map(bytes, pieces)), record.link_to(pieces[0])
    segments.path_of(run / segments.FOLDER, number).write_bytes(data)


def short(content):
    """Return a short record."""
    kind = {Start: Kind.START, Marker: Kind.MARKER, Refusal: Kind.REFUSAL}[type(content)]
    return kind, payloads.pack(content)


def receipt(message, sequence, run=RUN):
    """Return the receipt of a parcel."""
    return receipts.encode(
        receipts.Receipt(run, "default", "box-1", 7, sequence, wire.checksum(message[1]))
    )


def after(*messages):
    """Return the totals of these parcels."""
    totals = JournalTotals(RUN)
    for _, frame in messages:
        opened = wire.open_frame(frame)
        totals.add_message(wire.read_envelope(opened), *payloads.counts_of(opened))
    return totals


def test_audit_of_a_good_run_finds_no_problems(tmp_path, audited, message):
    """Messages, refusals and markers in two segments; the report has the figures."""
    one, two = message(1), message(2)
    refusal = Refusal("box-1", 7, 3, 1, "shape")
    write(tmp_path, 1, short(Start(RUN, 1)), one, two)
    write(tmp_path, 2, short(refusal), short(Marker(Version(1, 4), 6, 9)), totals=after(one, two))
    code, said = audited()
    assert code == 0, said
    assert "2 messages, 1 refusals, 1 markers" in said
    assert "6 rows, 0 episodes; newest version 1.4, after 9 updates" in said
    assert "box-1 0000000000000007: up to 3, 0 gaps" in said
    assert said.endswith("\nno problems\n")


def test_acknowledged_parcels_in_the_journal_are_no_problem(tmp_path, audited, message):
    """Receipts of other runs are counted and passed over."""
    one, two = message(1), message(2)
    write(tmp_path, 1, one, two)
    path = tmp_path / "receipts"
    path.write_bytes(receipt(one, 1) + receipt(two, 2) + receipt(two, 2, run="other"))
    code, said = audited(path)
    assert code == 0, said
    assert "acknowledged: 2 (1 of other runs); lost: 0; duplicated: 0; changed: 0" in said


def test_lost_parcel_is_named(tmp_path, audited, message):
    """It was acknowledged, and the journal does not have it."""
    one, two = message(1), message(2)
    write(tmp_path, 1, one)
    path = tmp_path / "receipts"
    path.write_bytes(receipt(one, 1) + receipt(two, 2))
    code, said = audited(path)
    assert code == 1
    assert "lost: 1;" in said
    assert "lost: box-1 0000000000000007 2 was acknowledged" in said


def test_doubled_parcel_is_named(tmp_path, audited, message):
    """The same number is there twice, also if one of the two is a refusal."""
    write(
        tmp_path, 1, message(1), message(2), message(1), short(Refusal("box-1", 7, 2, 1, "shape"))
    )
    code, said = audited()
    assert code == 1
    assert said.count("problem: duplicated") == 2


def test_changed_parcel_is_named(tmp_path, audited, message):
    """Its checksum differs from that of the receipt."""
    one = message(1)
    write(tmp_path, 1, one)
    path = tmp_path / "receipts"
    path.write_bytes(receipt(message(1, version=2), 1))
    code, said = audited(path)
    assert code == 1
    assert "changed: 1" in said


def test_damage_is_a_problem_and_a_torn_tail_is_only_noted(tmp_path, audited, message):
    """Damage lies before good records; a torn tail was never acknowledged."""
    write(tmp_path, 1, message(1), message(2), short(Marker(Version(1, 1), 0, 0)))
    path = segments.path_of(tmp_path / segments.FOLDER, 1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    code, said = audited()
    assert code == 0, said
    assert "note: segment 1: a torn tail" in said
    bad = bytearray(whole)
    bad[whole.index(message(2)[1]) + 100] ^= 1
    path.write_bytes(bad)
    code, said = audited()
    assert code == 1
    assert "are damaged" in said


def test_numbers_given_up_are_told_from_those_that_actors_still_hold(tmp_path, audited, message):
    """The actor holds a gap above its base; a gap below it is noted, and is the actor's word."""
    write(tmp_path, 1, message(1), message(3))
    code, said = audited()
    assert code == 0, said
    assert "up to 3, 1 gaps" in said
    write(tmp_path, 1, message(1), message(3, base=3))
    code, said = audited()
    assert code == 0, said
    assert "note: 1 numbers never arrived" in said


def test_removed_segments_are_a_problem_only_in_between(tmp_path, audited, message):
    """The first totals cover them; a gap between segments, or other totals, is a problem."""
    one, two, three = message(1), message(2), message(3)
    write(tmp_path, 2, two, totals=after(one))
    code, said = audited()
    assert code == 0, said
    assert "3 rows were in segments that are gone" in said
    path = tmp_path / "receipts"
    path.write_bytes(receipt(one, 1) + receipt(two, 2))
    assert "only with --keep-journal" in audited(path)[1]
    write(tmp_path, 4, three, totals=after(one))
    code, said = audited()
    assert code == 1
    assert "segments are missing: 3" in said
    assert "other totals" in said


def test_odd_records_are_named(tmp_path, audited, message):
    """Another run's message, a number out of range, an epoch twice, an unreadable record."""
    write(
        tmp_path,
        1,
        short(Start(RUN, 2)),
        short(Start(RUN, 2)),
        message(1, run="other"),
        message(9000, base=1),
        (Kind.MARKER, b"\xc1"),
    )
    code, said = audited()
    assert code == 1
    for words in (
        "of the run other",
        "no honest actor",
        "epoch 2 starts after epoch 2",
        "malformed",
    ):
        assert words in said


def test_parcels_of_one_actor_are_listed(tmp_path, audited, message):
    """Each with its number, rows, version and place."""
    write(
        tmp_path,
        1,
        message(1),
        message(1, actor="box-2"),
        short(Refusal("box-1", 7, 2, 1, "shape")),
    )
    said = audited(actor="box-1")[1].splitlines()
    assert said[0].startswith("box-1 0000000000000007 1: 3 rows under version 1.1")
    assert said[1].startswith("box-1 0000000000000007 2: refused (shape)")
    assert not any(line.startswith("box-2") for line in said)


def checkpoint(run, facts, tensors=None):
    """Write a checkpoint."""
    path = run / manifest.FOLDER / "000001"
    path.mkdir(parents=True, exist_ok=True)
    table = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (path / manifest.TENSORS).write_bytes(
        struct.pack("<Q", len(table)) + table + bytes(4) if tensors is None else tensors
    )
    (path / manifest.FACTS).write_bytes(msgpack.packb(facts))
    (run / manifest.MANIFEST).write_text("000001\n")


def test_checkpoints_must_be_whole_and_within_the_journal(tmp_path, audited, message):
    """Cut tensors, a position after the journal's end, a replay without its segments."""
    write(tmp_path, 3, message(1))
    checkpoint(tmp_path, {POSITION: [3, 100], REPLAY_FROM: 3})
    code, said = audited()
    assert code == 0, said
    checkpoint(tmp_path, {POSITION: [4, 100], REPLAY_FROM: 2})
    code, said = audited()
    assert code == 1
    assert "the journal ends at" in said
    assert "needs segment 2, and the first one is 3" in said
    checkpoint(tmp_path, {}, tensors=b"\x02\0\0\0\0\0\0\0{}more")
    assert "has 14 bytes, not 10" in audited()[1]
    checkpoint(tmp_path, {}, tensors=b"x")
    assert "cannot be read" in audited()[1]


def test_folder_without_a_journal_is_refused(tmp_path):
    """The sentence asks for a run's folder."""
    with pytest.raises(ConfigurationError, match="has no journal"):
        audit(tmp_path, (), "", io.StringIO())


def test_report_of_many_incarnations_is_bounded(tmp_path, audited, message):
    """The first ones are listed, the others counted."""
    write(tmp_path, 1, *(message(1, incarnation=number) for number in range(1, SHOWN + 4)))
    code, said = audited()
    assert code == 0, said
    assert f"actors: 1, incarnations: {SHOWN + 3} live, 0 retired" in said
    assert said.count("up to 1, 0 gaps") == SHOWN
    assert "and 3 more" in said
