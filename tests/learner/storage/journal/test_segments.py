"""Segment files after a crash: only a torn tail is cut, and damage is named."""

import pytest

from farflung.common.process.errors import ConfigurationError
from farflung.learner.storage.journal import record, segments
from farflung.learner.storage.journal.record import Kind, Record

SALT = b"salt"


def write(path, number, *payloads, reserved=0):
    """Write a segment of refusals with these payloads."""
    records = b"".join(
        b"".join(map(bytes, record.encode(SALT, Kind.REFUSAL, payload, record.NO_LINK)))
        for payload in payloads
    )
    path.mkdir(exist_ok=True)
    segments.path_of(path, number).write_bytes(
        (record.header(number, SALT) + records).ljust(reserved, b"\0")
    )


def payloads(path):
    """Return the payloads in all segments, each with its segment."""
    return [
        (number, bytes(found.payload))
        for number, found in segments.read(path)
        if isinstance(found, Record)
    ]


def repairs(path):
    """Mend the segments; return a sentence for each repair."""
    return [sentence for _, sentence in segments.mend(path) if isinstance(sentence, str)]


def test_segments_are_read_in_order_of_their_numbers(tmp_path):
    """Other files are passed over; a missing folder has no segments."""
    write(tmp_path, 10, b"ten")
    write(tmp_path, 9, b"nine")
    (tmp_path / "notes.txt").write_text("not ours")
    assert segments.numbers(tmp_path) == [9, 10]
    assert payloads(tmp_path) == [(9, b"nine"), (10, b"ten")]
    assert segments.numbers(tmp_path / "elsewhere") == []


def test_mend_of_a_whole_journal_only_returns_reserved_space(tmp_path):
    """Reserved zeros at the end are no damage."""
    write(tmp_path, 1, b"one")
    write(tmp_path, 2, b"two", reserved=1024)
    assert repairs(tmp_path) == []
    expected = record.HEADER_BYTES + record.size(3)
    assert segments.path_of(tmp_path, 2).stat().st_size == expected
    assert payloads(tmp_path) == [(1, b"one"), (2, b"two")]


def test_mend_cuts_a_torn_tail(tmp_path):
    """Records before it stay, and a second repair finds nothing to do."""
    write(tmp_path, 1, b"one", b"two", b"three")
    path = segments.path_of(tmp_path, 1)
    path.write_bytes(path.read_bytes()[:-12])
    (sentence,) = repairs(tmp_path)
    assert "torn tail" in sentence
    assert str(path) in sentence
    assert payloads(tmp_path) == [(1, b"one"), (1, b"two")]
    assert repairs(tmp_path) == []


def test_mend_quarantines_and_names_damage_before_good_records(tmp_path):
    """Nothing is cut: the bytes are copied aside, and the records around them count."""
    write(tmp_path, 1, b"one", b"two", b"three")
    path = segments.path_of(tmp_path, 1)
    data = bytearray(path.read_bytes())
    data[record.HEADER_BYTES + record.size(3) + record.HEAD_BYTES] ^= 1
    path.write_bytes(data)
    (sentence,) = repairs(tmp_path)
    assert "damaged" in sentence
    assert path.read_bytes() == data
    assert payloads(tmp_path) == [(1, b"one"), (1, b"three")]
    (copy,) = (tmp_path / segments.QUARANTINE).iterdir()
    assert str(copy) in sentence
    assert copy.read_bytes() in bytes(data)


def test_mend_takes_a_torn_end_before_the_last_segment_for_damage(tmp_path):
    """A later segment starts only when the one before is whole on disk: something was lost."""
    write(tmp_path, 1, b"one", b"two")
    path = segments.path_of(tmp_path, 1)
    path.write_bytes(path.read_bytes()[:-7])
    write(tmp_path, 2, b"three")
    (sentence,) = repairs(tmp_path)
    assert "damaged" in sentence
    assert len(list((tmp_path / segments.QUARANTINE).iterdir())) == 1


def test_unreadable_segment_is_named(tmp_path):
    """The sentence has its path and the reason."""
    segments.path_of(tmp_path, 1).mkdir()
    with pytest.raises(ConfigurationError, match=r"00000001\.log cannot be read"):
        list(segments.read(tmp_path))
