"""Checkpoints while training continues, one at a time."""

import errno
import threading
from types import SimpleNamespace

import pytest
import torch
from safetensors import SafetensorError
from support.learners import a_config, a_learner, an_empty_run
from support.waiting import eventually

from farflung.learner.storage import checkpoint, manifest, saver
from farflung.learner.storage.journal.disk import DiskFailure
from farflung.learner.storage.journal.record import Position
from farflung.learner.storage.manifest import POSITION, REPLAY_FROM
from farflung.learner.storage.replay_extent import ReplayExtent
from farflung.learner.storage.saver import Saver


@pytest.fixture
def core(tmp_path):
    """The core of a learner with a run folder."""
    return a_learner(a_config(), tmp_path / "runs").core


@pytest.fixture
def one(core, tmp_path):
    """A saver into `tmp_path`."""
    return Saver(an_empty_run(tmp_path), core)


def settled(one):
    """Wait for the checkpoint being written."""
    eventually(lambda: not one.busy)
    return one


def test_training_continues_while_a_checkpoint_is_written(one, core, tmp_path, monkeypatch):
    """The checkpoint has the state of its beginning; the stop of training is measured."""
    go, save = threading.Event(), checkpoint.save
    monkeypatch.setattr(
        checkpoint, "save", lambda folder, taken: go.wait(60) and save(folder, taken)
    )
    before = {name: tensor.clone() for name, tensor in core.algorithm.state().items()}
    one.begin()
    assert one.busy
    assert one.pause_s is not None
    for parameter in core.algorithm.policy().parameters():
        parameter.data.add_(1)
    core.state.updates = 99
    go.set()
    settled(one)
    found = checkpoint.load(tmp_path)
    assert found.facts["updates"] == 0
    assert all(torch.equal(found.tensors[name], tensor) for name, tensor in before.items())
    assert one.problem() == ""
    assert one.saved == str(tmp_path / "checkpoints" / "000001")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        SafetensorError(
            "Error while serializing: I/O error: No space left on device (os error 28)"
        ),
    ],
)
def test_full_disk_does_not_end_training(one, monkeypatch, error):
    """The problem is reported once; only the last checkpoint must be written."""

    def full(*_):
        raise error

    monkeypatch.setattr(checkpoint, "save", full)
    one.begin()
    assert "the one before it stands" in settled(one).problem()
    assert one.problem() == ""
    with pytest.raises(DiskFailure, match="No space left"):
        one.finish()


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        OSError(errno.ENFILE, "Too many open files in system"),
        SafetensorError("I/O error: Too many open files (os error 24)"),
    ],
)
def test_checkpoint_waits_for_a_file_descriptor(one, monkeypatch, error):
    """It is written once one is free; if none is for long, the checkpoint before it stands."""
    errors, save = [error, error], checkpoint.save

    def exhausted(*_):
        raise error

    def briefly(*arguments):
        if errors:
            raise errors.pop()
        return save(*arguments)

    monkeypatch.setattr(saver, "AGAIN_S", 0.0)
    monkeypatch.setattr(checkpoint, "save", briefly)
    one.begin()
    assert settled(one).problem() == ""
    assert one.saved.endswith("000001")
    monkeypatch.setattr(checkpoint, "save", exhausted)
    one.begin()
    assert "the one before it stands" in settled(one).problem()


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, "Input/output error"),
        SafetensorError("I/O error: (os error 5)"),
        ValueError("?"),
    ],
)
def test_broken_disk_ends_the_learner(one, monkeypatch, error):
    """With the exit code of a journal that failed."""

    def broken(*_):
        raise error

    monkeypatch.setattr(checkpoint, "save", broken)
    one.begin()
    with pytest.raises(DiskFailure, match="no checkpoint could be written") as caught:
        settled(one).problem()
    assert caught.value.exit_code == 74


def test_last_checkpoint_follows_the_one_being_written(one, core, tmp_path, monkeypatch):
    """Both are written, in order."""
    go, save = threading.Event(), checkpoint.save
    monkeypatch.setattr(
        checkpoint, "save", lambda folder, taken: go.wait(60) and save(folder, taken)
    )
    one.begin()
    core.state.updates = 7
    threading.Timer(0.01, go.set).start()
    one.finish()
    assert [manifest.facts(tmp_path, name)["updates"] for name in ("000001", "000002")] == [0, 7]


def test_finish_does_not_wait_for_ever(one, monkeypatch):
    """A disk that hangs is named."""
    go = threading.Event()
    monkeypatch.setattr(saver, "FINAL_S", 0.01)
    monkeypatch.setattr(checkpoint, "save", lambda *_: go.wait(60))
    with pytest.raises(DiskFailure, match=r"was not written within 0\.01 s"):
        one.finish()
    go.set()
    settled(one)


def test_journal_is_synced_before_a_checkpoint_counts_and_pruned_after(
    core, tmp_path, monkeypatch, caplog
):
    """The checkpoint refers to it. The log has the hash of the replay with its position."""
    order, save = [], checkpoint.save
    extent = ReplayExtent()
    extent.inserted(8, Position(3, 640))
    journal = SimpleNamespace(
        beginning=(3, b"totals"),
        sync_to=lambda last: order.append(f"sync to {last}"),
        forget_before=lambda segment: order.append(f"forget before {segment}"),
    )
    one = Saver(an_empty_run(tmp_path), core, journal, extent)
    monkeypatch.setattr(checkpoint, "save", lambda *both: order.append("save") or save(*both))
    with caplog.at_level("INFO"):
        one.begin()
        settled(one)
    assert order == ["sync to 3", "save", "forget before 3"]
    facts = checkpoint.load(tmp_path).facts
    assert (facts[POSITION], facts[REPLAY_FROM]) == ((3, 640), 3)
    assert f"with the replay {extent.digest(0)} as of journal 3:640" in caplog.text
