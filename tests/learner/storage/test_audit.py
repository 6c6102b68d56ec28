"""The audit holds a run to its word: whatever is lost, doubled, changed or missing on disk is found and named."""

import io
import json
import struct

import msgpack
import pytest
from support.makers import a_frame, a_spec

from farflung.common.data.version import Version
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol import receipts, wire
from farflung.learner.storage import manifest
from farflung.learner.storage.audit import audit
from farflung.learner.storage.journal import folder, payloads
from farflung.learner.storage.journal import format as form
from farflung.learner.storage.journal.format import Kind
from farflung.learner.storage.journal.payloads import JournalTotals, Marker, Refusal, Start
from farflung.learner.storage.retention import POSITION, REPLAY_FROM

SALT = b"salt"
RUN = "run-1"


@pytest.fixture
def message():
    """Makes the bytes of parcels."""
    spec = a_spec()
    return lambda sequence, **changes: (
        Kind.MESSAGE,
        a_frame(spec, sequence=sequence, **changes),
    )


@pytest.fixture
def audited(tmp_path):
    """Audits the run; gives the exit code and what was said."""

    def run(*files, actor=""):
        stream = io.StringIO()
        return audit(tmp_path, files, actor, stream), stream.getvalue()

    return run


def write(run, number, *records, table=None):
    """A segment that begins with a table, as the writer makes them."""
    first = (Kind.TABLE, payloads.pack_table(table or JournalTotals(RUN)))
    (run / folder.NAME).mkdir(exist_ok=True)
    pieces = [piece for record in (first, *records) for piece in form.encode(SALT, *record)]
    folder.path_of(run / folder.NAME, number).write_bytes(
        form.header(number, SALT) + b"".join(map(bytes, pieces))
    )


def short(said):
    kind = {Start: Kind.START, Marker: Kind.MARKER, Refusal: Kind.REFUSAL}[type(said)]
    return kind, payloads.pack(said)


def receipt(record, sequence, run=RUN):
    return receipts.encode(
        receipts.Receipt(run, "default", "box-1", 7, sequence, wire.checksum(record[1]))
    )


def after(*messages):
    """The table that these come to."""
    table = JournalTotals(RUN)
    for _, frame in messages:
        opened = wire.open_frame(frame)
        table.message(wire.read_envelope(opened), *payloads.counts_of(opened))
    return table


def test_a_run_that_adds_up_holds(tmp_path, audited, message):
    """Messages, refusals and markers over two segments; the figures are said."""
    one, two = message(1), message(2)
    refusal = Refusal("box-1", 7, 3, 1, "shape")
    write(tmp_path, 1, short(Start(RUN, 1)), one, two)
    write(tmp_path, 2, short(refusal), short(Marker(Version(1, 4), 6, 9)), table=after(one, two))
    code, said = audited()
    assert code == 0, said
    assert "2 messages, 1 refusals, 1 markers" in said
    assert "6 rows, 0 episodes; newest version 1.4, after 9 updates" in said
    assert "box-1 0000000000000007: up to 3, 0 gaps" in said
    assert said.endswith("everything holds\n")


def test_what_was_acknowledged_and_is_there_holds(tmp_path, audited, message):
    """Receipts of other runs are counted and left aside."""
    one, two = message(1), message(2)
    write(tmp_path, 1, one, two)
    path = tmp_path / "receipts"
    path.write_bytes(receipt(one, 1) + receipt(two, 2) + receipt(two, 2, run="other"))
    code, said = audited(path)
    assert code == 0, said
    assert "acknowledged: 2 (1 of other runs); lost: 0; duplicated: 0; changed: 0" in said


def test_a_lost_parcel_is_found(tmp_path, audited, message):
    """It was acknowledged, and the journal does not have it."""
    one, two = message(1), message(2)
    write(tmp_path, 1, one)
    path = tmp_path / "receipts"
    path.write_bytes(receipt(one, 1) + receipt(two, 2))
    code, said = audited(path)
    assert code == 1
    assert "lost: 1;" in said
    assert "lost: box-1 0000000000000007 2 was acknowledged" in said


def test_a_doubled_parcel_is_found(tmp_path, audited, message):
    """The same number twice, with or without receipts; also where one of them is a refusal."""
    write(
        tmp_path, 1, message(1), message(2), message(1), short(Refusal("box-1", 7, 2, 1, "shape"))
    )
    code, said = audited()
    assert code == 1
    assert said.count("problem: duplicated") == 2


def test_other_bytes_under_the_same_number_are_found(tmp_path, audited, message):
    """The checksums differ."""
    one = message(1)
    write(tmp_path, 1, one)
    path = tmp_path / "receipts"
    path.write_bytes(receipt(message(1, version=2), 1))
    code, said = audited(path)
    assert code == 1
    assert "changed: 1" in said


def test_damage_is_found_and_a_torn_tail_is_only_noted(tmp_path, audited, message):
    """One lies before good records, the other was never acknowledged."""
    write(tmp_path, 1, message(1), message(2), short(Marker(Version(1, 1), 0, 0)))
    path = folder.path_of(tmp_path / folder.NAME, 1)
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


def test_numbers_that_never_came_are_told_from_those_on_their_way(tmp_path, audited, message):
    """A gap above the base is held by its actor; below it, it is lost."""
    write(tmp_path, 1, message(1), message(3))
    code, said = audited()
    assert code == 0, said
    assert "up to 3, 1 gaps" in said
    write(tmp_path, 1, message(1), message(3, base=3))
    code, said = audited()
    assert code == 1
    assert "1 numbers are no longer held" in said


def test_segments_that_are_gone_are_missed_only_where_they_are_needed(tmp_path, audited, message):
    """The first table says what came before; a hole between two segments, or another count, is a problem."""
    one, two, three = message(1), message(2), message(3)
    write(tmp_path, 2, two, table=after(one))
    code, said = audited()
    assert code == 0, said
    assert "3 rows came in earlier segments" in said
    path = tmp_path / "receipts"
    path.write_bytes(receipt(one, 1) + receipt(two, 2))
    assert "only with --keep-journal" in audited(path)[1]
    write(tmp_path, 4, three, table=after(one))
    code, said = audited()
    assert code == 1
    assert "segments are missing: 3" in said
    assert "other counts" in said


def test_odd_records_are_named(tmp_path, audited, message):
    """A message of another run, one out of range, an epoch that does not rise, and a record that cannot be read."""
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
        "epoch 2 begins after epoch 2",
        "malformed",
    ):
        assert words in said


def test_one_actor_s_parcels_are_listed(tmp_path, audited, message):
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
    path = run / manifest.FOLDER / "000001"
    path.mkdir(parents=True, exist_ok=True)
    table = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (path / manifest.TENSORS).write_bytes(
        struct.pack("<Q", len(table)) + table + bytes(4) if tensors is None else tensors
    )
    (path / manifest.FACTS).write_bytes(msgpack.packb(facts))
    (run / manifest.MANIFEST).write_text("000001\n")


def test_checkpoints_must_be_whole_and_reached_by_the_journal(tmp_path, audited, message):
    """Cut tensors, unreadable facts, a place beyond the journal's end, and a replay whose segments are gone."""
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


def test_a_folder_without_a_journal_is_refused(tmp_path):
    """In a sentence."""
    with pytest.raises(ConfigurationError, match="has no journal"):
        audit(tmp_path, (), "", io.StringIO())
