"""Recovery of the journal: received numbers stay received, and damage is named."""

import errno

import pytest
from support.learner_epoch import PARCELS

from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol.inbox import Admission
from farflung.learner.storage import checkpoint, recover
from farflung.learner.storage.checkpoint import Checkpoint
from farflung.learner.storage.journal import record, segments
from farflung.learner.storage.manifest import POSITION, REPLAY_FROM, TOTALS
from farflung.learner.storage.run_folder import Run


def contiguous(inbox):
    """The numbers that an inbox has of the only incarnation."""
    return inbox.state()["live"][0]["contiguous"]


def damage_totals(run_folder, number):
    """Change a byte in the totals that a segment begins with."""
    path = segments.path_of(run_folder / segments.FOLDER, number)
    data = bytearray(path.read_bytes())
    data[record.HEADER_BYTES + record.HEAD_BYTES + 3] ^= 1
    path.write_bytes(data)


def test_recovered_inbox_knows_every_number(first_epoch):
    """Received numbers are duplicates; the epoch is one higher than that of the journal."""
    recovered = recover.recover(first_epoch.run, durable=True)
    assert recovered.inbox.epoch == 2
    assert [
        recovered.inbox.admit("box-1", 7, number, 1) for number in (1, PARCELS, PARCELS + 1)
    ] == [Admission.DUPLICATE, Admission.DUPLICATE, Admission.NEW]


@pytest.mark.parametrize("durable", [True, False])
def test_recovery_writes_the_newest_segment_to_a_new_file(first_epoch, durable):
    """After a failed sync a file may show what is not on disk, and no later sync writes it."""
    journal = first_epoch.run.folder / segments.FOLDER
    paths = [segments.path_of(journal, number) for number in segments.numbers(journal)]
    before = [(path.stat().st_ino, path.read_bytes()) for path in paths]
    recover.recover(first_epoch.run, durable=durable)
    after = [(path.stat().st_ino, path.read_bytes()) for path in paths]
    assert after[:-1] == before[:-1]
    assert after[-1][1] == before[-1][1]
    assert (after[-1][0] != before[-1][0]) == durable


def test_full_disk_at_a_resume_is_a_sentence(first_epoch, monkeypatch):
    """It names the segment and the reason, and the segment stays as it was."""

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(recover.atomic_file, "write", full)
    with pytest.raises(ConfigurationError, match="cannot be written again: No space left"):
        recover.recover(first_epoch.run, durable=True)


@pytest.mark.parametrize("deaths", [1, 2, 3])
def test_journal_that_was_never_started_has_no_rows(tmp_path, deaths):
    """Each learner was killed while it wrote its first segment: the epoch rises all the same."""
    empty = tmp_path / "other"
    (empty / segments.FOLDER).mkdir(parents=True)
    for number in range(1, deaths + 1):
        segments.path_of(empty / segments.FOLDER, number).write_bytes(bytes(4096))
    recovered = recover.recover(Run("other", "other-1", empty), durable=True)
    assert (recovered.rows, recovered.inbox.epoch, recovered.totals.run) == (0, 2, "other-1")


def test_damaged_totals_are_taken_from_a_checkpoint(first_epoch, caplog):
    """They begin the segment that was the newest at the checkpoint. The damage is named."""
    run_folder = first_epoch.run.folder
    journal = run_folder / segments.FOLDER
    (segment, _) = checkpoint.load(run_folder).facts[TOTALS]
    for number in segments.numbers(journal):
        if number < segment:
            segments.path_of(journal, number).unlink()
    damage_totals(run_folder, segment)
    recovered = recover.recover(first_epoch.run, durable=False)
    assert "its totals are damaged; a checkpoint's copy is taken" in caplog.text
    assert (recovered.rows, recovered.episodes) == (8 * PARCELS, PARCELS)
    assert recovered.inbox.epoch == 2
    assert contiguous(recovered.inbox) == PARCELS


def test_damaged_totals_before_other_segments_do_no_harm(first_epoch):
    """The next segment's totals cover them; those of the last one are needed."""
    run_folder = first_epoch.run.folder
    (run_folder / "MANIFEST").unlink()
    journal = run_folder / segments.FOLDER
    numbers = segments.numbers(journal)
    assert len(numbers) > 1
    damage_totals(run_folder, numbers[0])
    recovered = recover.recover(first_epoch.run, durable=False)
    assert (recovered.rows, contiguous(recovered.inbox)) == (8 * PARCELS, PARCELS)
    for number in numbers[:-1]:
        segments.path_of(journal, number).unlink()
    damage_totals(run_folder, numbers[-1])
    with pytest.raises(ConfigurationError, match="the totals before it are lost"):
        recover.recover(first_epoch.run, durable=False)


def test_recover_reads_only_the_segments_that_a_checkpoint_needs(
    first_epoch, tmp_path, monkeypatch
):
    """With --keep-journal there may be a thousand times as many; totals count the rest."""
    for _ in range(3):
        checkpoint.save(tmp_path, Checkpoint({}, {POSITION: [2, 0], REPLAY_FROM: 2}))
    read, content = [], segments.content
    monkeypatch.setattr(
        segments, "content", lambda where, number: read.append(number) or content(where, number)
    )
    recovered = recover.recover(first_epoch.run, durable=False)
    assert read == segments.numbers(tmp_path / segments.FOLDER)[1:]
    assert recovered.rows == 8 * PARCELS


def test_run_without_a_journal_cannot_be_resumed(tmp_path):
    """The sentence says how to use its weights."""
    with pytest.raises(ConfigurationError, match=r"no journal to resume from.*--init"):
        recover.recover(Run("none", "none-1", tmp_path / "none"), durable=True)


def test_long_recovery_logs_its_progress(first_epoch, caplog, monkeypatch):
    """At the latest every few seconds; a short recovery logs none."""
    with caplog.at_level("INFO"):
        recover.recover(first_epoch.run, durable=False)
    assert "read segment" not in caplog.text
    monkeypatch.setattr(recover, "PROGRESS_S", 0.0)
    with caplog.at_level("INFO"):
        recover.recover(first_epoch.run, durable=False)
    assert "read segment 1 of" in caplog.text
