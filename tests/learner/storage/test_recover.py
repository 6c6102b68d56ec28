"""Going on with a run: what was received is there again, and nothing that was promised is forgotten."""

import dataclasses
import re

import numpy as np
import pytest
import torch
from support.learners import a_config
from support.makers import a_spec

from farflung.common.data.parcel import Ending, Parcel, Results
from farflung.common.data.version import Version
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol import wire
from farflung.common.protocol.inbox import Admission
from farflung.common.protocol.parcels import ParcelCodec
from farflung.learner.endpoint.receiver import Accepted
from farflung.learner.storage import checkpoint, recover
from farflung.learner.storage.checkpoint import Checkpoint, copies
from farflung.learner.storage.journal import folder
from farflung.learner.storage.journal import format as form
from farflung.learner.storage.journal.folder import Position
from farflung.learner.storage.journal.format import Kind, Record
from farflung.learner.storage.journal.payloads import JournalTotals
from farflung.learner.storage.journal.writer import Journal
from farflung.learner.storage.replay_extent import ReplayExtent
from farflung.learner.storage.retention import POSITION, REPLAY_FROM, REPLAY_HASH, TABLE, Retention
from farflung.learner.storage.run_folder import Run
from farflung.learner.storage.saver import Saver

PARCELS = 12


def a_parcel(spec, number):
    """Eight steps whose every value says which parcel it is."""
    values = {"actions": number % 2}
    columns = {
        column.name: np.full(
            (column.count(8, 1, spec.stack), *column.shape),
            values.get(column.name, number),
            column.dtype,
        )
        for column in spec.columns
    }
    return Parcel(
        Version(1, 1),
        np.array([8], np.int32),
        np.array([Ending.OPEN], np.uint8),
        columns,
        Results(np.ones(1), np.ones(1, np.int32)),
    )


class Incarnation:
    """One life of a learner without sockets: what it takes in goes to the journal and from there into the replay."""

    def __init__(self, folder_, past=None, capacity=500):
        config = a_config(mode="async", capacity=capacity)
        from farflung.learner import build

        self.run = Run("one", "one-1", folder_, resumed=past is not None)
        device = __import__("torch").device("cpu")
        self.learner = build.learner(config, self.run, device, past)
        self.core, self.receiver, self.coverage = (
            self.learner.core,
            self.learner.receiver,
            ReplayExtent(),
        )
        table = JournalTotals(self.run.identity) if past is None else past.table
        self.journal = Journal(
            folder_,
            table,
            self.receiver.inbox.epoch,
            self.insert,
            durable=False,
            segment_bytes=4096,
        )
        self.form = ParcelCodec(self.core.spec)

    def insert(self, parcels):
        for parcel, end in parcels:
            self.core.insert([parcel])
            self.coverage.inserted(parcel.rows, end)

    def frame(self, number):
        spec = self.core.spec
        envelope = wire.Envelope(
            spec.run, spec.policy, "box-1", 7, number, 1, Version(1, 1), spec.schema
        )
        return bytes(self.form.encode(envelope, a_parcel(spec, number)))

    def receive(self, *numbers):
        for number in numbers:
            accepted = self.receiver.receive(self.frame(number), 0.0)
            assert isinstance(accepted, Accepted)
            self.journal.take(accepted)
        assert self.journal.drain(10)

    def die(self):
        self.journal.close()


@pytest.fixture
def first(tmp_path):
    """A life that received parcels, saved a checkpoint, received more, and ended."""
    life = Incarnation(tmp_path)
    life.receive(*range(1, 7))
    life.core.update()
    life.core.update()
    life.receiver.roster.join("box-1", 7, 0.0)
    saver = Saver(life.run, life.core)
    saver.archive = Retention(tmp_path, life.journal, life.coverage, keep=True)
    saver.finish(life.receiver.roster.state())
    life.journal.mark(life.core.publish())
    life.receive(*range(7, PARCELS + 1))
    life.die()
    return life


def next_life(first, **changes):
    past = recover.recover(first.run, durable=True)
    life = Incarnation(first.run.folder, past, **changes)
    sentence = recover.restore(first.run.folder, life.core, life.coverage, past)
    return life, sentence


def test_the_replay_is_the_same_again(first):
    """The same rows in the same order: every batch is the same; so are steps, updates, weights and the place in the journal."""
    life, sentence = next_life(first)
    for update in range(3):
        one, other = first.core.replay.sample(update), life.core.replay.sample(update)
        assert (one.indices == other.indices).all()
        assert (one.observations[""] == other.observations[""]).all()
        assert (one.actions == other.actions).all()
    assert (life.core.state.steps, life.core.progress.episodes) == (8 * PARCELS, PARCELS)
    assert (life.core.state.updates, life.core.pacing.rows, life.core.pacing.samples) == (
        2,
        96,
        16,
    )
    assert life.core.fingerprint == first.core.fingerprint
    assert life.coverage.position == first.coverage.position
    assert "epoch 2, 96 steps, 2 updates, 96 transitions" in sentence
    life.die()


def test_the_hash_of_the_replay_is_the_same_at_the_same_place(first, caplog):
    """Printed with the checkpoint, after six parcels, and again when these are back; the six after it do not matter."""
    with caplog.at_level("INFO"):
        life, _ = next_life(first)
    life.die()
    (line,) = re.findall(
        r"the replay is (\w{32}) as of journal (2:\d+), as it was when the checkpoint was taken",
        caplog.text,
    )
    saved = checkpoint.load(first.run.folder).facts
    assert line == (saved[REPLAY_HASH], str(Position(*saved[POSITION])))
    assert saved[REPLAY_HASH] != life.coverage.digest(life.core.replay.steps)


def test_another_replay_than_that_of_the_checkpoint_is_named(first, caplog):
    """A parcel that is no longer in the journal, as after damage: the hash tells."""
    path = folder.path_of(first.run.folder / folder.NAME, 1)
    messages = [
        r for _, r in folder.read(path.parent) if isinstance(r, Record) and r.kind is Kind.MESSAGE
    ]
    data = bytearray(path.read_bytes())
    data[messages[1].start + 40] ^= 1
    path.write_bytes(data)
    life, _ = next_life(first)
    life.die()
    assert "are damaged although good records follow" in caplog.text
    assert "other rows are in it" in caplog.text
    assert life.core.state.steps == 8 * (PARCELS - 1)


def test_a_journal_that_ends_before_the_checkpoint_is_named(first, caplog):
    """Somebody took its end away: what was acknowledged is gone, and that is said."""
    path = folder.path_of(first.run.folder / folder.NAME, 1)
    messages = [
        r for _, r in folder.read(path.parent) if isinstance(r, Record) and r.kind is Kind.MESSAGE
    ]
    for number in folder.numbers(path.parent)[1:]:
        folder.path_of(path.parent, number).unlink()
    path.write_bytes(path.read_bytes()[: messages[3].end])
    life, _ = next_life(first)
    life.die()
    assert "the journal ends at 1:" in caplog.text
    assert "before the place of the checkpoint, 2:" in caplog.text


def test_who_took_part_has_the_same_index_and_new_starts(first):
    """A life that goes on keeps its place; another life of that name gets its index, and a start that no earlier epoch gave out."""
    life, _ = next_life(first)
    life.die()
    same, next_ = (life.receiver.roster.join("box-1", incarnation, 0.0) for incarnation in (7, 8))
    assert (same.index, same.start) == (0, 0)
    assert (next_.index, next_.start) == (0, 1 << 20)
    assert life.receiver.roster.join("box-2", 1, 0.0).index == 1


def test_what_is_random_in_the_network_goes_on(first):
    """Torch's own generator is where it was when the checkpoint was taken."""
    torch.manual_seed(1)
    Saver(first.run, first.core).finish()
    expected = torch.rand(3)
    torch.manual_seed(2)
    next_life(first)[0].die()
    assert torch.equal(torch.rand(3), expected)


def test_samples_count_as_they_were_drawn(first):
    """16 of two updates, and of one that was published and lost another 8, whatever the batches will be."""
    first.core.pacing.samples = 100
    Saver(first.run, first.core).finish()
    past = recover.recover(first.run, durable=False)
    past = dataclasses.replace(past, marker=dataclasses.replace(past.marker, updates=3))
    life = Incarnation(first.run.folder, past)
    recover.restore(first.run.folder, life.core, life.coverage, past)
    life.die()
    assert (life.core.state.updates, life.core.pacing.samples) == (3, 108)


def test_the_next_life_has_a_higher_epoch_and_forgets_no_number(first):
    """What was taken is a duplicate; versions go on; places in the seed tree are new."""
    life, _ = next_life(first)
    assert life.receiver.inbox.epoch == 2
    assert life.core.state.version == Version(2, 1)
    assert [
        life.receiver.inbox.admit("box-1", 7, number, 1, 0.0)
        for number in (1, PARCELS, PARCELS + 1)
    ] == [
        Admission.DUPLICATE,
        Admission.DUPLICATE,
        Admission.NEW,
    ]
    assert life.receiver.roster.join("box-2", 1, 0.0).start >= 1 << 20
    life.die()
    assert recover.recover(first.run, durable=False).inbox.epoch == 3


def test_a_small_replay_needs_only_the_newest_segments(tmp_path):
    """What a checkpoint says that its replay needs is enough to make it again after the rest is gone."""
    life = Incarnation(tmp_path, capacity=16)
    for number in range(1, PARCELS + 1):
        life.receive(number)
    archive = Retention(tmp_path, life.journal, life.coverage, keep=False)
    checkpoint.save(
        tmp_path,
        Checkpoint(copies(life.core.algorithm.state()), archive.place(life.core.replay.steps)),
    )
    before = folder.numbers(tmp_path / folder.NAME)
    archive.prune()
    life.die()
    left = folder.numbers(tmp_path / folder.NAME)
    assert len(left) < len(before)
    again, _ = next_life(life, capacity=16)
    batches = [one.core.replay.sample(5).observations[""] for one in (life, again)]
    assert (batches[0] == batches[1]).all()
    assert again.core.state.steps == 8 * PARCELS
    assert again.receiver.inbox.admit("box-1", 7, 1, 1, 0.0) is Admission.DUPLICATE
    again.die()


def test_without_a_checkpoint_the_weights_begin_anew_and_it_is_said(tmp_path, caplog):
    """The journal is all there is."""
    life = Incarnation(tmp_path)
    life.receive(1, 2)
    life.die()
    again, _ = next_life(life)
    assert "has no checkpoint yet" in caplog.text
    assert again.core.state.steps == 16
    again.die()


def test_a_checkpoint_that_cannot_be_read_is_passed_over_loudly(first, caplog):
    """The one before it is taken."""
    facts = {"updates": 5}
    newest = checkpoint.save(
        first.run.folder, Checkpoint(copies(first.core.algorithm.state()), facts)
    )
    (newest / "tensors.safetensors").write_bytes(b"cut")
    _, sentence = next_life(first)
    assert "taking the one before it" in caplog.text
    assert "as of update 2" in sentence


def test_a_journal_that_was_never_begun_has_nothing_in_it(first, tmp_path):
    """Killed while its first segment was written: nothing was acknowledged, and the epoch rises all the same."""
    empty = tmp_path / "other"
    (empty / folder.NAME).mkdir(parents=True)
    folder.path_of(empty / folder.NAME, 1).write_bytes(bytes(4096))
    past = recover.recover(Run("other", "other-1", empty), durable=True)
    assert (past.rows, past.inbox.epoch, past.table.run) == (0, 2, "other-1")


def spoil_table(run_folder, number):
    """Change a byte in the table that a segment begins with."""
    path = folder.path_of(run_folder / folder.NAME, number)
    data = bytearray(path.read_bytes())
    data[form.HEADER_BYTES + form.HEAD_BYTES + 3] ^= 1
    path.write_bytes(data)


def test_a_damaged_table_is_taken_from_a_checkpoint(first, caplog):
    """The first segment that is read, and the newest when the checkpoint was taken: nothing is forgotten, and the damage is named."""
    journal = first.run.folder / folder.NAME
    (segment, _) = checkpoint.load(first.run.folder).facts[TABLE]
    for number in folder.numbers(journal):
        if number < segment:
            folder.path_of(journal, number).unlink()
    spoil_table(first.run.folder, segment)
    past = recover.recover(first.run, durable=False)
    assert "its table is damaged; the one in a checkpoint is taken" in caplog.text
    assert (past.rows, past.episodes, past.inbox.epoch) == (8 * PARCELS, PARCELS, 2)
    assert past.inbox.state()["lives"][0]["kept"] == PARCELS


def test_a_damaged_table_before_other_segments_does_no_harm(first):
    """The next segment's own table holds what this one had; of the last one there is no other, without a checkpoint."""
    (first.run.folder / "MANIFEST").unlink()
    journal = first.run.folder / folder.NAME
    numbers = folder.numbers(journal)
    assert len(numbers) > 1
    spoil_table(first.run.folder, numbers[0])
    past = recover.recover(first.run, durable=False)
    assert (past.rows, past.inbox.state()["lives"][0]["kept"]) == (8 * PARCELS, PARCELS)
    for number in numbers[:-1]:
        folder.path_of(journal, number).unlink()
    spoil_table(first.run.folder, numbers[-1])
    with pytest.raises(ConfigurationError, match="the table before it is gone"):
        recover.recover(first.run, durable=False)


def test_only_what_a_checkpoint_needs_is_read(first, tmp_path, monkeypatch):
    """With --keep-journal there may be a thousand times as much: the rest is counted in the tables."""
    journal = tmp_path / folder.NAME
    facts = {POSITION: [2, 0], REPLAY_FROM: 2}
    for _ in range(3):
        checkpoint.save(tmp_path, Checkpoint({}, facts))
    read, content = [], folder.content
    monkeypatch.setattr(
        folder, "content", lambda where, number: read.append(number) or content(where, number)
    )
    past = recover.recover(first.run, durable=False)
    assert read == folder.numbers(journal)[1:]
    assert past.rows == 8 * PARCELS


def test_what_cannot_be_gone_on_with_is_refused_in_a_sentence(first, tmp_path):
    """No journal, other settings, other weights, a first table that is gone."""
    with pytest.raises(ConfigurationError, match=r"no journal to go on from.*--init"):
        recover.recover(Run("none", "none-1", tmp_path / "none"), durable=True)
    past = recover.recover(first.run, durable=False)
    life = Incarnation(first.run.folder, past)
    life.core.spec = a_spec()
    with pytest.raises(ConfigurationError, match="the journal does not fit these settings"):
        recover.restore(first.run.folder, life.core, ReplayExtent(), past)
    checkpoint.save(first.run.folder, Checkpoint({"network.0.weight": torch.tensor(0)}, {}))
    with pytest.raises(ConfigurationError, match="do not fit this algorithm and network"):
        recover.restore(first.run.folder, life.core, ReplayExtent(), past)
    life.die()
