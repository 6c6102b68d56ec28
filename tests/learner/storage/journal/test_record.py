"""Records as bytes: written ones are read, and damage is told from unfinished writes."""

import itertools

import pytest
from support.makers import a_frame, a_spec

from farflung.learner.storage.journal import record
from farflung.learner.storage.journal.record import Damage, Kind, Record

SALT = b"salt"
RESERVED = 4096


def message(sequence=1):
    """Return the bytes of a parcel."""
    return a_frame(a_spec(), sequence=sequence)


def segment(*records, number=3, reserved=RESERVED):
    """Return the bytes of a segment with these records."""
    data, link = record.header(number, SALT), record.NO_LINK
    for one in records:
        pieces = record.encode(SALT, *one, link)
        data, link = data + b"".join(map(bytes, pieces)), record.link_to(pieces[0])
    return data.ljust(reserved, b"\0")


def scanned(data, number=3):
    """Return what a scan finds."""
    return list(record.scan(number, memoryview(data)))


def test_scan_finds_records_as_they_were_written():
    """Kind, payload and place, in order; the zeros after them are the end."""
    frame = message()
    found = scanned(segment((Kind.TOTALS, b"before"), (Kind.MESSAGE, frame), (Kind.REFUSAL, b"")))
    assert [(one.kind, bytes(one.payload)) for one in found] == [
        (Kind.TOTALS, b"before"),
        (Kind.MESSAGE, frame),
        (Kind.REFUSAL, b""),
    ]
    assert found[0].start == record.HEADER_BYTES
    assert [a.end for a in found[:-1]] == [b.start for b in found[1:]]
    assert found[0].end - found[0].start == record.size(6) == 24


def test_scan_reads_a_sealed_segment():
    """It ends with its last record, without reserved bytes."""
    assert len(scanned(segment((Kind.MESSAGE, message()), reserved=0))) == 1


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_scan_finds_a_torn_tail_wherever_it_was_torn(cut):
    """The records before it are whole; the rest is a write that never ended."""
    data = segment(
        (Kind.TOTALS, b"t"), (Kind.MESSAGE, message(1)), (Kind.MESSAGE, message(2)), reserved=0
    )
    whole, torn = scanned(data[:-cut])[:2], scanned(data[:-cut])[-1]
    assert [type(found) for found in whole] == [Record, Record]
    assert torn == Damage(whole[-1].end, len(data) - cut, torn=True)


def test_scan_notices_every_wrong_byte():
    """A record with a changed byte is left out; those beside it stay."""
    data = segment(
        (Kind.TOTALS, b"t"),
        (Kind.MESSAGE, message(1)),
        (Kind.REFUSAL, b"four"),
        (Kind.MARKER, b"last"),
        reserved=0,
    )
    whole = scanned(data)
    padding = {i for r in whole for i in range(r.start + record.HEAD_BYTES + len(r.payload), r.end)}
    for position in itertools.chain(
        range(whole[1].start, whole[1].start + 80), range(whole[2].start, whole[2].end)
    ):
        if position in padding:
            continue
        bad = bytearray(data)
        bad[position] ^= 0x10
        index = next(i for i, one in enumerate(whole) if one.start <= position < one.end)
        found = scanned(bytes(bad))
        assert found[index] == Damage(whole[index].start, whole[index].end)
        assert [f for i, f in enumerate(found) if i != index] == [
            r for i, r in enumerate(whole) if i != index
        ]


def test_damaged_header_costs_no_record():
    """The salt is read from the first record."""
    data = bytearray(segment((Kind.TOTALS, b"t"), (Kind.MESSAGE, message())))
    data[0] ^= 1
    assert [type(found) for found in scanned(bytes(data))] == [Damage, Record, Record]


def test_bytes_of_an_actor_cannot_pass_for_a_record():
    """A record inside a payload has another salt: it is not found where its host is damaged."""
    forged = record.encode(record.new_salt(), Kind.REFUSAL, b"forged", record.NO_LINK)
    inner = b"".join(map(bytes, forged))
    data = bytearray(
        segment((Kind.TOTALS, b"t"), (Kind.START, bytes(8) + inner), (Kind.MARKER, b"m"))
    )
    data[record.HEADER_BYTES + record.size(1) + 20] ^= 1
    assert [getattr(found, "kind", None) for found in scanned(bytes(data))] == [
        Kind.TOTALS,
        None,
        Kind.MARKER,
    ]


def test_each_record_has_a_link_to_the_one_before_it():
    """It is of the record's checksum, so it covers all before; the first one has none."""
    one, two, three = scanned(
        segment((Kind.TOTALS, b"t"), (Kind.REFUSAL, b"one"), (Kind.REFUSAL, b"two"))
    )
    assert (one.follows, two.follows, three.follows) == (record.NO_LINK, one.link, two.link)
    assert len({record.NO_LINK, one.link, two.link, three.link}) == 4


def test_segment_of_an_older_release_has_no_links():
    """It is read like any other, and says nothing of the order of its records."""
    data = segment((Kind.TOTALS, b"t"), (Kind.MARKER, b"m"))
    old = record.header(3, SALT, record.UNLINKED_MAGIC) + data[record.HEADER_BYTES :]
    assert [(one.kind, one.follows) for one in scanned(old)] == [
        (Kind.TOTALS, None),
        (Kind.MARKER, None),
    ]


def test_segment_of_zeros_or_without_bytes_is_empty():
    """It was reserved and never written."""
    assert scanned(bytes(RESERVED)) == scanned(b"") == []


def test_segment_of_noise_is_torn():
    """It has neither header nor record."""
    assert scanned(b"\x01" * 200) == [Damage(0, 200, torn=True)]


def test_segment_with_the_number_of_another_is_named():
    """As when a file was renamed."""
    assert scanned(segment((Kind.TOTALS, b"t")), number=4)[0] == Damage(0, record.HEADER_BYTES)


def test_salts_have_no_zero():
    """Zeros mark the end of a segment."""
    assert all(all(record.new_salt()) for _ in range(100))


def test_payload_at_returns_the_payload_of_a_known_record():
    """Recovery reads a parcel again at the place where a scan found it."""
    data = segment((Kind.TOTALS, b"before"), (Kind.REFUSAL, b"four"))
    second = scanned(data)[1]
    assert bytes(record.payload_at(memoryview(data), second.start)) == b"four"
