"""Segments as bytes: what was written is read, and what is damaged is told from what was never finished."""

import itertools

import pytest
from support.makers import a_frame, a_spec

from farflung.learner.storage.journal import format as form
from farflung.learner.storage.journal.format import Damage, Kind, Record, Torn

SALT = b"salt"
RESERVED = 4096


@pytest.fixture
def message():
    """Makes the bytes of parcels."""
    spec = a_spec()
    return lambda sequence=1: a_frame(spec, sequence=sequence)


def segment(*records, number=3, reserved=RESERVED):
    data = form.header(number, SALT) + b"".join(
        b"".join(map(bytes, form.encode(SALT, *record))) for record in records
    )
    return data.ljust(reserved, b"\0")


def scanned(data, number=3):
    return list(form.scan(number, memoryview(data)))


def test_records_come_back_as_they_were_written(message):
    """Kind, payload and place, in order; the zeros behind them are the end."""
    frame = message()
    found = scanned(segment((Kind.TABLE, b"before"), (Kind.MESSAGE, frame), (Kind.REFUSAL, b"")))
    assert [(record.kind, bytes(record.payload)) for record in found] == [
        (Kind.TABLE, b"before"),
        (Kind.MESSAGE, frame),
        (Kind.REFUSAL, b""),
    ]
    assert found[0].start == form.HEADER_BYTES
    assert [a.end for a in found[:-1]] == [b.start for b in found[1:]]
    assert found[0].end - found[0].start == form.size(6) == 24


def test_a_sealed_segment_may_end_with_its_last_record(message):
    """Sealing gives back the reserved bytes."""
    data = segment((Kind.MESSAGE, message()), reserved=0)
    assert len(scanned(data)) == 1


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_tail_is_found_wherever_it_was_torn(message, cut):
    """The records before it are whole; what follows is a write that never ended."""
    data = segment(
        (Kind.TABLE, b"t"), (Kind.MESSAGE, message(1)), (Kind.MESSAGE, message(2)), reserved=0
    )
    whole, torn = scanned(data[:-cut])[:2], scanned(data[:-cut])[-1]
    assert [type(found) for found in whole] == [Record, Record]
    assert torn == Torn(whole[-1].end, len(data) - cut)


def test_every_single_wrong_byte_is_noticed(message):
    """No byte of a record can change without its record being left out; those beside it stay."""
    records = [
        (Kind.TABLE, b"t"),
        (Kind.MESSAGE, message(1)),
        (Kind.REFUSAL, b"four"),
        (Kind.MARKER, b"last"),
    ]
    data = segment(*records, reserved=0)
    whole = scanned(data)
    padding = {i for r in whole for i in range(r.start + form.HEAD_BYTES + len(r.payload), r.end)}
    for position in itertools.chain(
        range(whole[1].start, whole[1].start + 80), range(whole[2].start, whole[2].end)
    ):
        if position in padding:
            continue
        bad = bytearray(data)
        bad[position] ^= 0x10
        index = next(i for i, record in enumerate(whole) if record.start <= position < record.end)
        found = scanned(bytes(bad))
        assert found[index] == Damage(whole[index].start, whole[index].end)
        assert [f for i, f in enumerate(found) if i != index] == [
            r for i, r in enumerate(whole) if i != index
        ]


def test_a_damaged_header_costs_no_record(message):
    """The salt is found again at the first record."""
    data = bytearray(segment((Kind.TABLE, b"t"), (Kind.MESSAGE, message())))
    data[0] ^= 1
    assert [type(found) for found in scanned(bytes(data))] == [Damage, Record, Record]


def test_what_an_actor_sends_cannot_pass_for_a_record(message):
    """A record inside a payload has another salt: it is not found where its host is damaged."""
    inner = b"".join(map(bytes, form.encode(form.new_salt(), Kind.REFUSAL, b"forged")))
    data = bytearray(
        segment((Kind.TABLE, b"t"), (Kind.START, bytes(8) + inner), (Kind.MARKER, b"m"))
    )
    data[form.HEADER_BYTES + form.size(1) + 20] ^= 1
    assert [getattr(found, "kind", None) for found in scanned(bytes(data))] == [
        Kind.TABLE,
        None,
        Kind.MARKER,
    ]


def test_a_segment_of_zeros_or_none_is_empty():
    """What was reserved and never written has nothing in it."""
    assert scanned(bytes(RESERVED)) == scanned(b"") == []


def test_a_segment_of_noise_is_all_torn():
    """Neither header nor record: nothing of it can be used."""
    assert scanned(b"\x01" * 200) == [Torn(0, 200)]


def test_a_segment_that_bears_another_number_is_named(message):
    """A file that was renamed is noticed."""
    assert scanned(segment((Kind.TABLE, b"t")), number=4)[0] == Damage(0, form.HEADER_BYTES)


def test_salts_have_no_zero():
    """Zeros are the end."""
    assert all(all(form.new_salt()) for _ in range(100))
