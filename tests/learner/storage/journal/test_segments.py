"""The segments of a life: each follows the one before, and goes when nothing needs it."""

import pytest
from support.waiting import eventually

from farflung.common.process.errors import ConfigurationError
from farflung.learner.storage.journal import folder, payloads
from farflung.learner.storage.journal.format import Kind, Record


def records(tmp_path, *kinds):
    found = [record for _, record in folder.read(tmp_path / folder.NAME)]
    assert all(isinstance(record, Record) for record in found)
    return [record for record in found if record.kind in kinds]


def test_segments_roll_and_each_can_be_understood_alone(desk, tmp_path):
    """Each begins with a table of what came before; the one before is cut to its length; messages larger than a segment fit too."""
    one = desk(segment_bytes=1500)
    for number in range(1, 8):
        one.take(number)
        one.settled(1)
    assert len(folder.numbers(tmp_path / folder.NAME)) > 2
    found = [record.payload for record in records(tmp_path, Kind.MESSAGE)]
    assert len(found) == 7
    last = payloads.read_table(records(tmp_path, Kind.TABLE)[-1])
    kept = last.inbox.state()["lives"][0]["kept"]
    assert last.rows == 3 * kept
    assert 1 < kept < 7
    first = folder.path_of(tmp_path / folder.NAME, 1)
    assert first.stat().st_size == records(tmp_path, Kind.MESSAGE)[0].end
    assert one.disk.calls.count("sync_folder") == 1 + len(folder.numbers(tmp_path / folder.NAME))


def test_a_journal_that_cannot_begin_is_refused_in_a_sentence(desk, tmp_path):
    """Its folder, the reason and the bytes that are free."""
    (tmp_path / folder.NAME).write_text("in the way")
    with pytest.raises(ConfigurationError, match=r"cannot be begun: .*--run-dir"):
        desk()


def test_what_is_not_needed_goes_and_nothing_else(desk, tmp_path):
    """Segments below the one that is named; the one that is being written always stays."""
    one = desk(segment_bytes=1500)
    for number in range(1, 6):
        one.take(number)
        one.settled(1)
    numbers = folder.numbers(tmp_path / folder.NAME)
    one.journal.forget_before(3)
    assert eventually(lambda: folder.numbers(tmp_path / folder.NAME) == numbers[2:])
    one.journal.forget_before(10**6)
    assert eventually(lambda: folder.numbers(tmp_path / folder.NAME) == numbers[-1:])
    assert (
        payloads.read_table(records(tmp_path, Kind.TABLE)[0]).inbox.state()["lives"][0]["kept"] == 4
    )


def test_a_segment_that_cannot_be_removed_ends_nothing(desk, tmp_path):
    """It costs room, and is named."""
    one = desk(segment_bytes=1500)
    one.take(1)
    one.take(2)
    one.settled(2)
    one.disk.broken = "remove"
    one.journal.forget_before(2)
    assert eventually(lambda: "remove" in one.disk.calls)
    one.take(3)
    assert one.settled(1) == [3]


def test_segments_go_oldest_first_and_each_for_good_before_the_next(desk, tmp_path):
    """A power cut or a segment that stays must not leave a gap: the numbers in it would be taken again."""
    one = desk(segment_bytes=1500)
    for number in range(1, 7):
        one.take(number)
        one.settled(1)
    before = folder.numbers(tmp_path / folder.NAME)
    one.disk.calls.clear()
    one.journal.forget_before(3)
    assert eventually(lambda: one.disk.calls == ["remove", "sync_folder"] * 2)
    one.disk.broken = "remove"
    one.journal.forget_before(5)
    assert eventually(lambda: one.disk.calls == ["remove", "sync_folder"] * 2 + ["remove"])
    assert folder.numbers(tmp_path / folder.NAME) == before[2:]
