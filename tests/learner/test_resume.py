"""Going on with a run: what was received is there again, and nothing that was promised is forgotten."""

import numpy as np
import pytest

from common import wire
from common.delivery import Admission
from common.errors import ConfigurationError
from common.packing import ParcelFormat
from common.trajectory import Ending, Parcel, Results
from common.weights import Version
from learner import checkpoint, resume
from learner.checkpoint import Checkpoint
from learner.gate import Accepted
from learner.journal import folder
from learner.journal.archive import Archive
from learner.journal.content import Table
from learner.journal.coverage import Coverage
from learner.journal.writer import Journal
from learner.run import Run

PARCELS = 12


def a_parcel(spec, number):
    """Eight steps whose every value says which parcel it is."""
    values = {"actions": number % 2}
    columns = {
        column.name: np.full((column.count(8, 1, spec.stack), *column.shape), values.get(column.name, number), column.dtype)
        for column in spec.columns
    }
    return Parcel(1, 1, np.array([8], np.int32), np.array([Ending.OPEN], np.uint8), columns, Results(np.ones(1), np.ones(1, np.int32)))


class Life:
    """One life of a learner without sockets: what it takes in goes to the journal and from there into the replay."""

    def __init__(self, quick, folder_, past=None, capacity=500):
        config = quick.a_config(mode="async", capacity=capacity)
        from learner import build

        self.run = Run("one", "one-1", folder_, resumed=past is not None)
        device = __import__("torch").device("cpu")
        self.learner = build.learner(config, self.run, device, past.inbox if past is not None else None)
        self.training, self.gate, self.coverage = self.learner.training, self.learner.gate, Coverage()
        table = Table(self.run.identity) if past is None else past.table
        self.journal = Journal(folder_, table, self.gate.inbox.epoch, self.insert, durable=False, segment_bytes=4096)
        self.form = ParcelFormat(self.training.spec)

    def insert(self, parcel, end):
        self.training.insert(parcel)
        self.coverage.inserted(parcel.rows, end)

    def frame(self, number):
        spec = self.training.spec
        envelope = wire.Envelope(spec.run, spec.policy, "box-1", 7, number, 1, 1, 1, spec.schema)
        return bytes(self.form.encode(envelope, a_parcel(spec, number)))

    def receive(self, *numbers):
        for number in numbers:
            accepted = self.gate.receive(self.frame(number), 0.0)
            assert isinstance(accepted, Accepted)
            self.journal.take(accepted)
        assert self.journal.drain(10)

    def die(self):
        self.journal.close()


@pytest.fixture
def first(quick, tmp_path):
    """A life that received parcels, saved a checkpoint, received more, and ended."""
    life = Life(quick, tmp_path)
    life.receive(*range(1, 7))
    life.training.update()
    life.training.update()
    facts = {"updates": 2} | Archive(tmp_path, life.journal, life.coverage, keep=True).place(life.training.replay.size)
    checkpoint.save(tmp_path, Checkpoint(life.training.algorithm.state(), facts))
    life.journal.mark(life.training.publish())
    life.receive(*range(7, PARCELS + 1))
    life.die()
    return life


def next_life(quick, first, **changes):
    past = resume.recover(first.run, durable=True)
    life = Life(quick, first.run.folder, past, **changes)
    sentence = resume.restore(first.run.folder, life.training, life.coverage, past)
    return life, sentence


def test_the_replay_is_the_same_again(quick, first):
    """The same rows in the same order: every batch is the same; so are steps, updates, weights and the place in the journal."""
    life, sentence = next_life(quick, first)
    for update in range(3):
        one, other = first.training.replay.sample(update), life.training.replay.sample(update)
        assert (one.indices == other.indices).all()
        assert (one.observations[""] == other.observations[""]).all()
        assert (one.actions == other.actions).all()
    assert (life.training.steps, life.training.progress.episodes) == (8 * PARCELS, PARCELS)
    assert (life.training.updates, life.training.pacing.rows, life.training.pacing.samples) == (2, 96, 16)
    assert life.training.fingerprint == first.training.fingerprint
    assert life.coverage.position == first.coverage.position
    assert "epoch 2, 96 steps, 2 updates, 96 transitions" in sentence
    life.die()


def test_the_next_life_has_a_higher_epoch_and_forgets_no_number(quick, first):
    """What was taken is a duplicate; versions go on; places in the seed tree are new."""
    life, _ = next_life(quick, first)
    assert life.gate.inbox.epoch == 2
    assert life.training.version == Version(2, 1)
    assert [life.gate.inbox.admit("box-1", 7, number, 1, 0.0) for number in (1, PARCELS, PARCELS + 1)] == [
        Admission.DUPLICATE,
        Admission.DUPLICATE,
        Admission.NEW,
    ]
    assert life.gate.roster.join("box-2", 1, 0.0).start >= 1 << 20
    life.die()
    assert resume.recover(first.run, durable=False).inbox.epoch == 3


def test_a_small_replay_needs_only_the_newest_segments(quick, tmp_path):
    """What a checkpoint says that its replay needs is enough to make it again after the rest is gone."""
    life = Life(quick, tmp_path, capacity=16)
    for number in range(1, PARCELS + 1):
        life.receive(number)
    archive = Archive(tmp_path, life.journal, life.coverage, keep=False)
    checkpoint.save(tmp_path, Checkpoint(life.training.algorithm.state(), archive.place(life.training.replay.size)))
    before = folder.numbers(tmp_path / folder.NAME)
    archive.prune()
    life.die()
    left = folder.numbers(tmp_path / folder.NAME)
    assert len(left) < len(before)
    again, _ = next_life(quick, life, capacity=16)
    batches = [one.training.replay.sample(5).observations[""] for one in (life, again)]
    assert (batches[0] == batches[1]).all()
    assert again.training.steps == 8 * PARCELS
    assert again.gate.inbox.admit("box-1", 7, 1, 1, 0.0) is Admission.DUPLICATE
    again.die()


def test_without_a_checkpoint_the_weights_begin_anew_and_it_is_said(quick, tmp_path, caplog):
    """The journal is all there is."""
    life = Life(quick, tmp_path)
    life.receive(1, 2)
    life.die()
    again, _ = next_life(quick, life)
    assert "has no checkpoint yet" in caplog.text
    assert again.training.steps == 16
    again.die()


def test_a_checkpoint_that_cannot_be_read_is_passed_over_loudly(quick, first, caplog):
    """The one before it is taken."""
    facts = {"updates": 5}
    newest = checkpoint.save(first.run.folder, Checkpoint(first.training.algorithm.state(), facts))
    (newest / "tensors.safetensors").write_bytes(b"cut")
    _, sentence = next_life(quick, first)
    assert "taking the one before it" in caplog.text
    assert "as of update 2" in sentence


def test_a_journal_that_was_never_begun_has_nothing_in_it(quick, first, tmp_path):
    """Killed while its first segment was written: nothing was acknowledged, and the epoch rises all the same."""
    empty = tmp_path / "other"
    (empty / folder.NAME).mkdir(parents=True)
    folder.path_of(empty / folder.NAME, 1).write_bytes(bytes(4096))
    past = resume.recover(Run("other", "other-1", empty), durable=True)
    assert (past.rows, past.inbox.epoch, past.table.run) == (0, 2, "other-1")


def test_what_cannot_be_gone_on_with_is_refused_in_a_sentence(quick, first, tmp_path):
    """No journal, other settings, other weights, a first table that is gone."""
    with pytest.raises(ConfigurationError, match=r"no journal to go on from.*--init"):
        resume.recover(Run("none", "none-1", tmp_path / "none"), durable=True)
    past = resume.recover(first.run, durable=False)
    life = Life(quick, first.run.folder, past)
    life.training.spec = quick.a_spec()
    with pytest.raises(ConfigurationError, match="the journal does not fit these settings"):
        resume.restore(first.run.folder, life.training, Coverage(), past)
    checkpoint.save(first.run.folder, Checkpoint({"network.0.weight": life.training.algorithm.state()["updates"]}, {}))
    with pytest.raises(ConfigurationError, match="do not fit this algorithm and network"):
        resume.restore(first.run.folder, life.training, Coverage(), past)
    life.die()
