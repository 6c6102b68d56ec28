"""A folder of segments after a crash: only a torn tail is cut, and what is damaged is named."""

import pytest

from farflung.common.process.errors import ConfigurationError
from farflung.learner.storage.journal import folder
from farflung.learner.storage.journal import format as form
from farflung.learner.storage.journal.format import Kind, Record

SALT = b"salt"


def write(path, number, *payloads, reserved=0):
    records = b"".join(
        b"".join(map(bytes, form.encode(SALT, Kind.REFUSAL, payload))) for payload in payloads
    )
    path.mkdir(exist_ok=True)
    folder.path_of(path, number).write_bytes(
        (form.header(number, SALT) + records).ljust(reserved, b"\0")
    )


def payloads(path):
    return [
        (number, bytes(found.payload))
        for number, found in folder.read(path)
        if isinstance(found, Record)
    ]


def test_segments_are_read_in_order(tmp_path):
    """By number, whatever else lies there; a folder that is not there has none."""
    write(tmp_path, 10, b"ten")
    write(tmp_path, 9, b"nine")
    (tmp_path / "notes.txt").write_text("not ours")
    assert folder.numbers(tmp_path) == [9, 10]
    assert payloads(tmp_path) == [(9, b"nine"), (10, b"ten")]
    assert folder.numbers(tmp_path / "elsewhere") == []


def repaired(path):
    """What was done to make a journal whole."""
    return [said for _, said in folder.mend(path) if isinstance(said, str)]


def test_a_whole_journal_needs_no_repair(tmp_path):
    """Reserved zeros at the end are no damage."""
    write(tmp_path, 1, b"one")
    write(tmp_path, 2, b"two", reserved=1024)
    assert repaired(tmp_path) == []
    assert folder.path_of(tmp_path, 2).stat().st_size == form.HEADER_BYTES + form.size(
        3
    )  # and are given back
    assert payloads(tmp_path) == [(1, b"one"), (2, b"two")]


def test_a_torn_tail_is_cut(tmp_path):
    """What is before it stays, and a second repair finds nothing to do."""
    write(tmp_path, 1, b"one", b"two", b"three")
    path = folder.path_of(tmp_path, 1)
    path.write_bytes(path.read_bytes()[:-12])
    (sentence,) = repaired(tmp_path)
    assert "torn tail" in sentence
    assert str(path) in sentence
    assert payloads(tmp_path) == [(1, b"one"), (1, b"two")]
    assert repaired(tmp_path) == []


def test_damage_before_good_records_is_kept_and_named(tmp_path):
    """Nothing is cut: the bytes are copied aside, and the records around them count."""
    write(tmp_path, 1, b"one", b"two", b"three")
    path = folder.path_of(tmp_path, 1)
    data = bytearray(path.read_bytes())
    data[form.HEADER_BYTES + form.size(3) + form.HEAD_BYTES] ^= 1
    path.write_bytes(data)
    (sentence,) = repaired(tmp_path)
    assert "damaged" in sentence
    assert path.read_bytes() == data
    assert payloads(tmp_path) == [(1, b"one"), (1, b"three")]
    (aside,) = (tmp_path / folder.QUARANTINE).iterdir()
    assert str(aside) in sentence
    assert aside.read_bytes() in bytes(data)


def test_a_torn_end_before_the_last_segment_is_damage(tmp_path):
    """A later segment is begun only when the one before is whole on disk: so something was lost."""
    write(tmp_path, 1, b"one", b"two")
    path = folder.path_of(tmp_path, 1)
    path.write_bytes(path.read_bytes()[:-7])
    write(tmp_path, 2, b"three")
    (sentence,) = repaired(tmp_path)
    assert "damaged" in sentence
    assert len(list((tmp_path / folder.QUARANTINE).iterdir())) == 1


def test_a_segment_that_cannot_be_read_is_said_in_a_sentence(tmp_path):
    """Its path and why."""
    folder.path_of(tmp_path, 1).mkdir()
    with pytest.raises(ConfigurationError, match=r"00000001\.log cannot be read"):
        list(folder.read(tmp_path))
