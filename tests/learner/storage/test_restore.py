"""Restoring training: the replay, the weights and the counters are as before."""

import dataclasses
import re

import pytest
import torch
from support.learner_epoch import PARCELS, LearnerEpoch, next_epoch
from support.makers import a_spec

from farflung.common.data.weights import Version
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol.inbox import Admission
from farflung.learner.storage import checkpoint, recover
from farflung.learner.storage.checkpoint import Checkpoint, copies
from farflung.learner.storage.journal import segments
from farflung.learner.storage.journal.record import Kind, Position, Record
from farflung.learner.storage.manifest import POSITION, REPLAY_HASH, needed_from
from farflung.learner.storage.replay_extent import ReplayExtent, journal_facts
from farflung.learner.storage.restore import restore
from farflung.learner.storage.saver import Saver


def messages_of(path):
    """Return the records of parcels in all segments beside this one."""
    return [
        found
        for _, found in segments.read(path.parent)
        if isinstance(found, Record) and found.kind is Kind.MESSAGE
    ]


def test_replay_and_counters_are_restored(first_epoch):
    """Batches, steps, updates, weights and the journal's position are those of the old learner."""
    epoch, sentence = next_epoch(first_epoch)
    epoch.end()
    before, after = first_epoch.core, epoch.core
    for update in range(3):
        one, other = before.replay.sample(update), after.replay.sample(update)
        assert (one.indices == other.indices).all()
        assert (one.observations[""] == other.observations[""]).all()
        assert (one.actions == other.actions).all()
    assert (after.state.steps, after.progress.episodes) == (8 * PARCELS, PARCELS)
    assert (after.state.updates, after.pacing.rows, after.pacing.samples) == (2, 96, 16)
    assert after.fingerprint == before.fingerprint
    assert epoch.extent.position == first_epoch.extent.position
    assert "epoch 2, 96 steps, 2 updates, 96 transitions" in sentence


def test_replay_has_the_hash_of_the_checkpoint_at_its_position(first_epoch, caplog):
    """The hash after six parcels is logged; the six parcels after them do not matter."""
    with caplog.at_level("INFO"):
        epoch, _ = next_epoch(first_epoch)
    epoch.end()
    (line,) = re.findall(
        r"the replay is (\w{32}) as of journal (2:\d+), as in the checkpoint", caplog.text
    )
    saved = checkpoint.load(first_epoch.run.folder).facts
    assert line == (saved[REPLAY_HASH], str(Position(*saved[POSITION])))
    assert saved[REPLAY_HASH] != epoch.extent.digest(epoch.core.replay.steps)


def test_replay_with_other_rows_than_at_the_checkpoint_is_named(first_epoch, caplog):
    """A parcel that is damaged in the journal changes the hash."""
    path = segments.path_of(first_epoch.run.folder / segments.FOLDER, 1)
    data = bytearray(path.read_bytes())
    data[messages_of(path)[1].start + 40] ^= 1
    path.write_bytes(data)
    epoch, _ = next_epoch(first_epoch)
    epoch.end()
    assert "are damaged although good records follow" in caplog.text
    assert "it has other rows" in caplog.text
    assert epoch.core.state.steps == 8 * (PARCELS - 1)


def test_journal_that_ends_before_the_checkpoint_is_named(first_epoch, caplog):
    """The end of the journal was removed, with acknowledged parcels."""
    path = segments.path_of(first_epoch.run.folder / segments.FOLDER, 1)
    end = messages_of(path)[3].end
    for number in segments.numbers(path.parent)[1:]:
        segments.path_of(path.parent, number).unlink()
    path.write_bytes(path.read_bytes()[:end])
    epoch, _ = next_epoch(first_epoch)
    epoch.end()
    assert "the journal ends at 1:" in caplog.text
    assert "before the position of the checkpoint, 2:" in caplog.text


@pytest.mark.parametrize("capacity", [500, 24])
def test_games_of_a_resumed_run_are_those_that_were_played(tmp_path, capacity):
    """Each once: those of the checkpoint, and those in the journal after it.

    A replay of 24 rows needs three parcels, so older games are in the checkpoint alone.
    """
    options = {"capacity": capacity, "metrics": ("opponent", "outcome", "seat")}
    first = LearnerEpoch(tmp_path, **options)
    first.receive(*range(1, 7))
    Saver(first.run, first.core, first.journal, first.extent).finish()
    first.receive(*range(7, PARCELS + 1))
    first.end()
    expected = first.core.progress.standings
    assert expected.played == PARCELS == first.core.progress.episodes
    for _ in range(2):
        following, _ = next_epoch(first, **options)
        following.end()
        assert following.core.progress.standings.state() == expected.state()
        assert following.core.progress.standings.played == PARCELS


@pytest.mark.parametrize("capacity", [500, 24])
def test_statistics_of_a_resumed_run_are_those_of_all_rows(tmp_path, capacity):
    """To the bit, also of rows that the replay has lost; a parcel counts once."""
    options = {"capacity": capacity, "normalise_observations": True, "normalise_rewards": True}
    first = LearnerEpoch(tmp_path, **options)
    first.receive(*range(1, 7))
    Saver(first.run, first.core, first.journal, first.extent).finish()
    first.receive(*range(7, PARCELS + 1))
    first.end()
    expected = first.core.normaliser.state()
    assert expected["rewards"][0] == 8 * PARCELS
    for _ in range(2):
        following, _ = next_epoch(first, **options)
        following.end()
        assert following.core.normaliser.state() == expected


def test_actors_keep_their_index_and_get_new_starts(first_epoch):
    """Another incarnation of an actor gets a start that no earlier epoch handed out."""
    epoch, _ = next_epoch(first_epoch)
    epoch.end()
    roster = epoch.receiver.roster
    same, following = (roster.join("box-1", incarnation, 0.0) for incarnation in (7, 8))
    assert (same.index, same.start) == (0, 0)
    assert (following.index, following.start) == (0, 1 << 20)
    assert roster.join("box-2", 1, 0.0).index == 1
    assert roster.join("box-3", 1, 0.0).start >= 1 << 20


def test_random_state_of_torch_is_restored(first_epoch):
    """Torch's generator is in its state at the checkpoint."""
    torch.manual_seed(1)
    Saver(first_epoch.run, first_epoch.core).finish()
    expected = torch.rand(3)
    torch.manual_seed(2)
    next_epoch(first_epoch)[0].end()
    assert torch.equal(torch.rand(3), expected)


def test_lost_updates_count_as_sampled(first_epoch):
    """The checkpoint has 2 updates and 100 samples, and the newest marker a third update."""
    first_epoch.core.pacing.samples = 100
    Saver(first_epoch.run, first_epoch.core).finish()
    recovered = recover.recover(first_epoch.run, durable=False)
    marker = dataclasses.replace(recovered.marker, updates=3)
    recovered = dataclasses.replace(recovered, marker=marker)
    epoch = LearnerEpoch(first_epoch.run.folder, recovered)
    restore(first_epoch.run.folder, epoch.core, epoch.extent, recovered)
    epoch.end()
    assert (epoch.core.state.updates, epoch.core.pacing.samples) == (3, 108)


def test_versions_continue_under_a_higher_epoch(first_epoch):
    """After version 1.1 comes 2.2; a third start has epoch 3."""
    epoch, _ = next_epoch(first_epoch)
    epoch.end()
    assert epoch.core.state.version == Version(2, 1)
    assert recover.recover(first_epoch.run, durable=False).inbox.epoch == 3


def test_small_replay_needs_only_the_newest_segments(tmp_path):
    """The segments that a checkpoint names suffice after the others are removed."""
    epoch = LearnerEpoch(tmp_path, capacity=16)
    for number in range(1, PARCELS + 1):
        epoch.receive(number)
    facts = journal_facts(epoch.journal, epoch.extent, epoch.core.replay.steps)
    checkpoint.save(tmp_path, Checkpoint(copies(epoch.core.algorithm.state()), facts))
    before = segments.numbers(tmp_path / segments.FOLDER)
    epoch.journal.forget_before(needed_from(tmp_path))
    epoch.end()
    assert len(segments.numbers(tmp_path / segments.FOLDER)) < len(before)
    again, _ = next_epoch(epoch, capacity=16)
    again.end()
    batches = [one.core.replay.sample(5).observations[""] for one in (epoch, again)]
    assert (batches[0] == batches[1]).all()
    assert again.core.state.steps == 8 * PARCELS
    assert again.receiver.inbox.admit("box-1", 7, 1, 1) is Admission.DUPLICATE


def test_run_without_a_checkpoint_restores_the_replay_and_says_so(tmp_path, caplog):
    """A run without a checkpoint starts with new weights."""
    epoch = LearnerEpoch(tmp_path)
    epoch.receive(1, 2)
    epoch.end()
    again, _ = next_epoch(epoch)
    again.end()
    assert "has no checkpoint yet" in caplog.text
    assert again.core.state.steps == 16


def test_unreadable_checkpoint_is_passed_over_loudly(first_epoch, caplog):
    """A damaged checkpoint is passed over for the one before it."""
    tensors = copies(first_epoch.core.algorithm.state())
    newest = checkpoint.save(first_epoch.run.folder, Checkpoint(tensors, {"updates": 5}))
    (newest / "tensors.safetensors").write_bytes(b"cut")
    epoch, sentence = next_epoch(first_epoch)
    epoch.end()
    assert "taking the one before it" in caplog.text
    assert "as of update 2" in sentence


def test_journal_or_weights_of_other_settings_are_refused(first_epoch):
    """Weights that do not fit are refused before training."""
    recovered = recover.recover(first_epoch.run, durable=False)
    epoch = LearnerEpoch(first_epoch.run.folder, recovered)
    epoch.end()
    epoch.core.spec = a_spec()
    with pytest.raises(ConfigurationError, match="the journal does not fit these settings"):
        restore(first_epoch.run.folder, epoch.core, ReplayExtent(), recovered)
    checkpoint.save(first_epoch.run.folder, Checkpoint({"network.0.weight": torch.tensor(0)}, {}))
    with pytest.raises(ConfigurationError, match="do not fit this algorithm and network"):
        restore(first_epoch.run.folder, epoch.core, ReplayExtent(), recovered)


def test_long_restore_logs_its_progress(first_epoch, caplog, monkeypatch):
    """The log shows the progress of a long restoration."""
    monkeypatch.setattr(recover, "PROGRESS_S", 0.0)
    with caplog.at_level("INFO"):
        next_epoch(first_epoch)[0].end()
    assert f"restored {PARCELS} of {PARCELS} parcels" in caplog.text
