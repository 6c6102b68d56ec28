"""The journal thread: nothing is settled before it is on disk, and a failed disk ends it."""

import errno
import threading

import pytest
from support.makers import some_weights
from support.waiting import eventually

from farflung.common.data.weights import Version
from farflung.learner.storage.journal import journal as journal_module
from farflung.learner.storage.journal import payloads, record, segments
from farflung.learner.storage.journal.disk import DiskFailure
from farflung.learner.storage.journal.payloads import Marker, Refusal, Start
from farflung.learner.storage.journal.record import Kind, Position


@pytest.fixture
def quick_retries(monkeypatch):
    """Retry on a full disk without a pause."""
    monkeypatch.setattr(journal_module, "FULL_S", 0.01)


def failed(journal):
    """Return True once the journal's thread has ended by an error."""
    try:
        journal.check()
    except DiskFailure:
        return True
    return False


def test_parcel_is_on_disk_before_it_is_delivered_and_settled(make_journal):
    """The record holds the message as received; the parcel comes with its position."""
    one = make_journal()
    frame = one.append(1)
    assert one.settled(1) == [1]
    (item,) = one.delivered
    (written,) = one.records(Kind.MESSAGE)
    assert bytes(written.payload) == frame
    assert (item.content.rows, item.frame) == (3, b"")
    assert (item.end, item.end.digest) == (Position(1, written.end), record.chained(0, frame))
    assert one.disk.calls[-2:] == ["write", "sync"]


def test_positions_and_digests_of_a_group_chain(make_journal, tmp_path):
    """A group is written in one call; each parcel has its own end and the digest up to there."""
    one = make_journal()
    frames = [one.append(number) for number in range(1, 6)]
    one.settled(5)
    assert [item.end for item in one.delivered] == [
        Position(1, written.end) for written in one.records(Kind.MESSAGE)
    ]
    digest = 0
    for frame, item in zip(frames, one.delivered, strict=True):
        digest = record.chained(digest, frame)
        assert item.end.digest == digest


def test_parcels_that_arrive_during_a_sync_form_the_next_group(make_journal, monkeypatch):
    """Nothing is settled while the sync lasts; the others are written together after it."""
    one = make_journal()
    begun, go = threading.Event(), threading.Event()
    sync = one.disk.sync
    monkeypatch.setattr(
        one.disk, "sync", lambda descriptor: (begun.set(), go.wait(60), sync(descriptor))
    )
    one.append(1)
    assert begun.wait(60)
    one.append(2)
    one.append(3)
    assert one.unsettled
    assert one.delivered == []
    assert one.journal.waiting_rows == 9
    go.set()
    assert one.settled(3) == [1, 2, 3]
    assert eventually(lambda: one.journal.waiting_rows == 0)
    assert one.disk.calls.count("write") == 1 + 1 + 2  # header, start, and two groups


def test_start_is_durable_before_anything_else(make_journal):
    """The first segment names run and epoch, and is synced with its folder."""
    one = make_journal()
    assert one.disk.calls == [
        "sync_folder",
        "create",
        "write",
        "sync",
        "sync_folder",
        "write",
        "sync",
    ]
    (start,) = one.records(Kind.START)
    assert payloads.unpack(start) == Start("run-1", 1)


def test_refusal_settles_its_number(make_journal):
    """It is a short record with number, base and reason."""
    one = make_journal()
    one.refuse(4, "shape", base=2)
    assert one.settled(1) == [4]
    (refusal,) = one.records(Kind.REFUSAL)
    assert payloads.unpack(refusal) == Refusal("box-1", 7, 4, 2, "shape")


def test_marker_has_version_steps_and_updates(make_journal):
    """It ties a place in the journal to a publication, and settles nothing."""
    one = make_journal()
    one.journal.mark(some_weights(one.spec, number=5, steps=640))
    assert one.journal.drain(10)
    (marker,) = one.records(Kind.MARKER)
    assert payloads.unpack(marker) == Marker(Version(1, 5), 640, 6400)
    assert one.unsettled


def test_journal_without_fsync_never_syncs(make_journal):
    """Written bytes survive the process, which is all that `process` promises but for its start."""
    one = make_journal(durable=False)
    one.disk.calls.clear()
    one.append(1)
    assert one.settled(1) == [1]
    assert {"sync", "sync_folder"}.isdisjoint(one.disk.calls)


def test_full_disk_delays_acknowledgements_until_there_is_room(make_journal, quick_retries):
    """The problem names path and bytes; the journal continues by itself, and writes once."""
    one = make_journal()
    one.disk.full = True
    one.append(1)
    assert eventually(lambda: one.journal.problem)
    assert str(one.folder) in one.journal.problem
    assert "bytes are free" in one.journal.problem
    assert one.unsettled
    assert one.delivered == []
    one.journal.check()
    one.disk.full = False
    assert one.settled(1) == [1]
    assert eventually(lambda: not one.journal.problem)
    assert len(one.records(Kind.MESSAGE)) == 1


def test_full_disk_at_the_next_segment_leaves_the_one_before_whole(make_journal, quick_retries):
    """Space is reserved ahead, so that a full disk shows between records."""

    def full(path, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    one = make_journal(segment_bytes=1500)
    one.append(1)
    one.settled(1)
    beginning = one.journal.beginning
    create, one.disk.create = one.disk.create, full
    one.append(2)
    assert eventually(lambda: one.journal.problem)
    assert one.numbers == [1]
    assert one.journal.beginning == beginning
    one.disk.create = create
    assert one.settled(1) == [2]
    assert one.numbers == [1, 2]
    assert one.journal.beginning[0] == 2


@pytest.mark.parametrize("call", ["create", "sync_folder"])
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_journal_waits_for_a_file_descriptor(make_journal, monkeypatch, call, number):
    """Connections may take all for a moment: nothing is broken, and nothing is lost."""

    def exhausted(*_):
        raise OSError(number, "Too many open files")

    monkeypatch.setattr(journal_module, "EXHAUSTED_S", 0.01)
    one = make_journal(segment_bytes=1500)
    one.append(1)
    one.settled(1)
    with monkeypatch.context() as patch:
        patch.setattr(one.disk, call, exhausted)
        one.append(2)
        assert eventually(lambda: one.journal.problem)
        assert "waits for a file descriptor (Too many open files)" in one.journal.problem
        one.journal.check()
        assert one.numbers == [1]
    assert one.settled(1) == [2]
    assert one.numbers == [1, 2]
    assert len(one.records(Kind.MESSAGE)) == 2


def test_journal_survives_a_removal_without_a_file_descriptor(make_journal, monkeypatch):
    """A segment that stays costs nothing but space."""

    def exhausted(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    one = make_journal(segment_bytes=1500)
    for number in range(1, 6):
        one.append(number)
        one.settled(1)
    monkeypatch.setattr(segments, "numbers", exhausted)
    one.journal.forget_before(10**6)
    assert one.journal.drain(10)
    monkeypatch.undo()
    one.append(6)
    assert one.settled(1) == [6]
    one.journal.check()


def test_full_disk_still_lets_old_segments_go(make_journal, quick_retries):
    """Their removal may be what makes room."""
    one = make_journal(segment_bytes=1500)
    for number in range(1, 6):
        one.append(number)
        one.settled(1)
    one.disk.full = True
    one.append(6)
    assert eventually(lambda: one.journal.problem)
    kept = one.numbers[-1:]
    one.journal.forget_before(10**6)
    assert eventually(lambda: one.numbers == kept)


def test_close_on_a_full_disk_ends(make_journal):
    """Waiting parcels were not acknowledged: their actors still hold them."""
    one = make_journal()
    one.disk.full = True
    one.append(1)
    assert eventually(lambda: one.journal.problem)
    one.journal.close()
    assert one.delivered == []


@pytest.mark.parametrize("call", ["sync", "write"])
def test_disk_error_ends_the_journal_and_settles_nothing(make_journal, call):
    """A failed sync is never tried again: its bytes may be gone although the next one succeeds."""
    one = make_journal()
    one.disk.broken = call
    one.append(1)
    assert eventually(lambda: failed(one.journal))
    one.disk.broken = ""
    assert one.journal.drain(10) is False
    one.append(2)
    with pytest.raises(DiskFailure, match=r"journal.*cannot be written.*Input/output error"):
        one.journal.check()
    assert one.unsettled
    assert one.delivered == []
    assert one.disk.calls.count("sync") <= 3


def test_close_writes_waiting_parcels_and_seals(make_journal):
    """Every parcel that was appended is on disk, and no reserved bytes stay."""
    one = make_journal()
    for number in range(1, 4):
        one.append(number)
    one.journal.close()
    found = one.records(Kind.MESSAGE)
    assert len(found) == 3
    assert segments.path_of(one.folder, 1).stat().st_size == found[-1].end


def test_sync_to_syncs_each_segment_once_it_is_whole(make_journal, monkeypatch):
    """The last one of the time before is synced again, because it has grown."""
    one = make_journal(segment_bytes=1500)
    for number in range(1, 6):
        one.append(number)
        one.settled(1)
    synced = []
    monkeypatch.setattr(journal_module.atomic_file, "sync", lambda path: synced.append(path.name))
    one.journal.sync_to(2)
    assert synced == ["00000001.log", "00000002.log", "journal"]
    synced.clear()
    one.journal.sync_to(3)
    assert synced == ["00000002.log", "00000003.log", "journal"]


def test_journal_that_keeps_everything_removes_no_segment(make_journal):
    """As `--keep-journal` asks for."""
    one = make_journal(segment_bytes=1500, keep=True)
    for number in range(1, 6):
        one.append(number)
        one.settled(1)
    before = one.numbers
    one.journal.forget_before(10**6)
    one.append(6)
    one.settled(1)
    assert one.numbers[: len(before)] == before


def test_journal_counts_the_time_of_its_disk(make_journal, monkeypatch):
    """While a sync lasts it counts too; an idle journal counts nothing."""
    one = make_journal()
    one.append(1)
    one.settled(1)
    begun, go = threading.Event(), threading.Event()
    sync = one.disk.sync
    monkeypatch.setattr(
        one.disk, "sync", lambda descriptor: (begun.set(), go.wait(60), sync(descriptor))
    )
    before = one.journal.disk_s
    one.append(2)
    assert begun.wait(60)
    eventually(lambda: one.journal.disk_s > before + 0.05)
    go.set()
    one.settled(1)
    idle = one.journal.disk_s
    assert idle > before + 0.05
    assert one.journal.drain(60)
    assert one.journal.disk_s == idle
