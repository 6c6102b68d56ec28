"""The log: segments follow each other, and go when nothing needs them."""

import errno
import os

import pytest
from support.waiting import eventually

from farflung.common.process.errors import ConfigurationError
from farflung.learner.storage.journal import segments
from farflung.learner.storage.journal.disk import Disk
from farflung.learner.storage.journal.log import RELEASED_BYTES, Segment
from farflung.learner.storage.journal.record import Kind
from farflung.learner.storage.journal.totals import JournalTotals

SEGMENT_BYTES = 1500  # a parcel or two


@pytest.fixture
def filled(make_journal):
    """A journal of small segments with so many parcels."""

    def fill(count):
        one = make_journal(segment_bytes=SEGMENT_BYTES)
        for number in range(1, count + 1):
            one.append(number)
            one.settled(1)
        return one

    return fill


def contiguous(totals):
    """The numbers that these totals have of the only incarnation."""
    return totals.inbox.state()["live"][0]["contiguous"]


def test_segments_begin_with_the_totals_of_those_before(filled):
    """The one before is cut to its length; a message larger than a segment fits too."""
    one = filled(7)
    assert len(one.numbers) > 2
    assert len(one.records(Kind.MESSAGE)) == 7
    last = JournalTotals.unpack(one.records(Kind.TOTALS)[-1])
    assert last.rows == 3 * contiguous(last)
    assert 1 < contiguous(last) < 7
    first = segments.path_of(one.folder, 1)
    assert first.stat().st_size == one.records(Kind.MESSAGE)[0].end
    assert one.disk.calls.count("sync_folder") == 1 + len(one.numbers)


def test_epoch_survives_a_power_cut_at_any_durability(make_journal):
    """Else it could be drawn twice, and actors would take its second learner for a copy."""
    one = make_journal(durable=False)
    assert one.disk.calls == ["create", "write", "write", "sync", "sync_folder"]
    assert len(one.records(Kind.START)) == 1


def test_log_that_cannot_start_is_refused(make_journal, tmp_path):
    """The sentence names the folder, the reason and the free bytes."""
    (tmp_path / segments.FOLDER).write_text("in the way")
    with pytest.raises(ConfigurationError, match=r"cannot be started: .*--run-dir"):
        make_journal()


def test_log_removes_unneeded_segments_and_no_others(filled):
    """Those below the named one; the newest always stays, with the totals of the others."""
    one = filled(5)
    numbers = one.numbers
    one.journal.forget_before(3)
    assert eventually(lambda: one.numbers == numbers[2:])
    one.journal.forget_before(10**6)
    assert eventually(lambda: one.numbers == numbers[-1:])
    assert contiguous(JournalTotals.unpack(one.records(Kind.TOTALS)[0])) == 4


def test_segment_that_cannot_be_removed_ends_nothing(filled):
    """It costs space, and is named."""
    one = filled(2)
    one.disk.broken = "remove"
    one.journal.forget_before(2)
    assert eventually(lambda: "remove" in one.disk.calls)
    one.append(3)
    assert one.settled(1) == [3]


def test_log_removes_the_oldest_segment_durably_before_the_next(filled):
    """After a power cut or a failure there must be no gap: numbers in it would be taken again."""
    one = filled(6)
    before = one.numbers
    one.disk.calls.clear()
    one.journal.forget_before(3)
    assert eventually(lambda: one.disk.calls == ["remove", "sync_folder"] * 2)
    one.disk.broken = "remove"
    one.journal.forget_before(5)
    assert eventually(lambda: one.disk.calls == ["remove", "sync_folder"] * 2 + ["remove"])
    assert one.numbers == before[2:]


def is_in_memory(path):
    """Return whether the system holds the first page of a file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        pytest.skip("this file system does not tell what is in memory")
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("durable", [True, False], ids=["fsync", "process"])
def test_what_was_written_leaves_memory(tmp_path, durable):
    """At any durability; else a journal would take fresh memory as long as there is any.

    What is still being written goes with a later release, so more is written until it has gone.
    """
    segment = Segment(Disk(), tmp_path, 1, 64 * RELEASED_BYTES, b"", b"", durable=durable)
    path = segments.path_of(tmp_path, 1)

    def goes_with_more():
        assert segment.append([(Kind.MESSAGE, bytes(RELEASED_BYTES))])
        segment.sync()
        return not is_in_memory(path)

    assert eventually(goes_with_more, look_s=0.2)
    segment.seal()
