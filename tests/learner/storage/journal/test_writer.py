"""The journal thread: nothing is settled before it is on disk, and a disk that fails is never believed."""

import threading

import pytest
from support.makers import some_weights
from support.waiting import eventually

from farflung.common.data.version import Version
from farflung.common.protocol.wire import Envelope
from farflung.learner.storage.journal import folder, payloads
from farflung.learner.storage.journal import format as form
from farflung.learner.storage.journal.folder import Position
from farflung.learner.storage.journal.format import Kind, Record
from farflung.learner.storage.journal.payloads import Marker, Refusal
from farflung.learner.storage.journal.writer import JournalFailure


def records(tmp_path, *kinds):
    found = [record for _, record in folder.read(tmp_path / folder.NAME)]
    assert all(isinstance(record, Record) for record in found)
    return [record for record in found if record.kind in kinds]


def test_a_parcel_is_on_disk_before_it_is_handed_on_and_settled(desk, tmp_path):
    """As received, with its place; then its number may be told."""
    one = desk()
    accepted = one.take(1)
    assert one.settled(1) == [1]
    ((parcel, end),) = one.delivered
    (record,) = records(tmp_path, Kind.MESSAGE)
    assert bytes(record.payload) == accepted.frame
    assert parcel is accepted.parcel
    assert (end, end.digest) == (Position(1, record.end), form.chained(0, accepted.frame))
    assert one.disk.calls[-2:] == ["write", "sync"]


def test_while_a_sync_lasts_nothing_is_settled(desk, monkeypatch):
    """And what comes meanwhile is written by the next one, together."""
    one = desk()
    begun, go = threading.Event(), threading.Event()
    sync = one.disk.sync
    monkeypatch.setattr(
        one.disk, "sync", lambda descriptor: (begun.set(), go.wait(10), sync(descriptor))
    )
    one.take(1)
    assert begun.wait(10)
    one.take(2)
    one.take(3)
    assert one.journal.settled() == []
    assert one.delivered == []
    assert one.journal.waiting_rows == 9
    go.set()
    assert one.settled(3) == [1, 2, 3]
    assert eventually(lambda: one.journal.waiting_rows == 0)
    assert one.disk.calls.count("write") == 1 + 1 + 2  # header, start, and two groups


def test_a_life_begins_durably_before_anything_else(desk, tmp_path):
    """The first segment says whose run and which epoch, and is synced with its folder."""
    one = desk()
    assert one.disk.calls == [
        "sync_folder",
        "create",
        "write",
        "sync",
        "sync_folder",
        "write",
        "sync",
    ]
    (start,) = records(tmp_path, Kind.START)
    assert payloads.read(start) == payloads.Start("run-1", 1)


def test_refusals_and_markers_are_short_records(desk, tmp_path):
    """A refusal settles its number; a marker settles nothing."""
    one = desk()
    envelope = Envelope("run-1", "default", "box-1", 7, 4, 2, Version(1, 1), "")
    one.journal.refuse(envelope, "shape")
    assert one.settled(1) == [4]
    assert payloads.read(records(tmp_path, Kind.REFUSAL)[0]) == Refusal("box-1", 7, 4, 2, "shape")


def test_a_marker_names_version_and_counts(desk, tmp_path):
    """So that a place in the journal is tied to a version."""
    one = desk()
    one.journal.mark(some_weights(one.spec, number=5, steps=640))
    assert one.journal.drain(10)
    assert payloads.read(records(tmp_path, Kind.MARKER)[0]) == Marker(Version(1, 5), 640, 6400)


def test_without_durability_nothing_is_synced(desk):
    """What is written survives the process, and that is all that was asked for."""
    one = desk(durable=False)
    one.take(1)
    assert one.settled(1) == [1]
    assert {"sync", "sync_folder"}.isdisjoint(one.disk.calls)


def test_a_full_disk_holds_acknowledgements_back_until_there_is_room(desk, tmp_path, monkeypatch):
    """The message names path and bytes; nothing is lost, nothing written twice; it goes on by itself."""
    monkeypatch.setattr("farflung.learner.storage.journal.writer.FULL_S", 0.01)
    one = desk()
    one.disk.full = True
    one.take(1)
    assert eventually(lambda: one.journal.problem)
    assert str(tmp_path / folder.NAME) in one.journal.problem
    assert "bytes are free" in one.journal.problem
    assert one.journal.settled() == []
    assert one.delivered == []
    one.journal.check()
    one.disk.full = False
    assert one.settled(1) == [1]
    assert eventually(lambda: not one.journal.problem)
    assert len(records(tmp_path, Kind.MESSAGE)) == 1


def test_no_room_for_the_next_segment_leaves_the_one_before_whole(desk, tmp_path, monkeypatch):
    """Room is reserved ahead, so that a full disk shows between records."""
    monkeypatch.setattr("farflung.learner.storage.journal.writer.FULL_S", 0.01)
    one = desk(segment_bytes=1500)
    one.take(1)
    one.settled(1)
    create, one.disk.create = one.disk.create, full
    one.take(2)
    assert eventually(lambda: one.journal.problem)
    assert folder.numbers(tmp_path / folder.NAME) == [1]
    one.disk.create = create
    assert one.settled(1) == [2]
    assert folder.numbers(tmp_path / folder.NAME) == [1, 2]


def full(path, size):
    import errno

    raise OSError(errno.ENOSPC, "No space left on device")


def test_closing_with_a_full_disk_ends(desk):
    """What waits was not acknowledged: its actors still hold it."""
    one = desk()
    one.disk.full = True
    one.take(1)
    assert eventually(lambda: one.journal.problem)
    one.journal.close()
    assert one.delivered == []


@pytest.mark.parametrize("call", ["sync", "write"])
def test_an_error_of_the_disk_ends_the_journal_and_nothing_is_settled(desk, call):
    """A sync that failed is never tried again: what it should have written may be gone although the next one succeeds."""
    one = desk()
    one.disk.broken = call
    one.take(1)
    assert eventually(lambda: one.journal._failure is not None)
    one.disk.broken = ""
    one.take(2)
    with pytest.raises(JournalFailure, match=r"journal.*cannot be written.*Input/output error"):
        one.journal.check()
    assert one.journal.settled() == []
    assert one.delivered == []
    assert one.disk.calls.count("sync") <= 3


def test_closing_writes_what_waits_and_seals(desk, tmp_path):
    """Nothing that was handed in before is left out, and no reserved bytes stay."""
    one = desk()
    for number in range(1, 4):
        one.take(number)
    one.journal.close()
    found = records(tmp_path, Kind.MESSAGE)
    assert len(found) == 3
    assert folder.path_of(tmp_path / folder.NAME, 1).stat().st_size == found[-1].end
