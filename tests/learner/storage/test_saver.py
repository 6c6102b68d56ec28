"""Checkpoints are written while training goes on, one at a time, and a disk that fails is never taken for one that is full."""

import errno
import threading
from types import SimpleNamespace

import pytest
import torch
from safetensors import SafetensorError
from support.learners import a_config, a_learner, an_empty_run

from farflung.learner.storage import checkpoint, manifest, saver
from farflung.learner.storage.retention import POSITION, REPLAY_HASH
from farflung.learner.storage.saver import CheckpointFailure, Saver


@pytest.fixture
def core(tmp_path):
    """A learner's training, whose run is in a folder of its own."""
    return a_learner(a_config(), tmp_path / "runs").core


@pytest.fixture
def one(core, tmp_path):
    """A saver into `tmp_path`."""
    return Saver(an_empty_run(tmp_path), core)


def settled(one):
    """Wait for what is being written."""
    one._thread.join(10)
    assert not one.busy
    return one


def test_training_goes_on_while_a_checkpoint_is_written(one, core, tmp_path, monkeypatch):
    """What is written is what was there when it began, whatever training does meanwhile; the stop is measured."""
    go, save = threading.Event(), checkpoint.save
    monkeypatch.setattr(
        checkpoint, "save", lambda folder, taken: go.wait(10) and save(folder, taken)
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
def test_a_full_disk_does_not_end_the_training(one, monkeypatch, error):
    """It is said once, and the next one is tried in its time; only the last one must be written."""

    def full(*_):
        raise error

    monkeypatch.setattr(checkpoint, "save", full)
    one.begin()
    assert "the one before it stands" in settled(one).problem()
    assert one.problem() == ""
    with pytest.raises(CheckpointFailure, match="No space left"):
        one.finish()


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, "Input/output error"),
        SafetensorError("I/O error: (os error 5)"),
        ValueError("?"),
    ],
)
def test_a_disk_that_breaks_ends_the_learner(one, monkeypatch, error):
    """As an error of the journal does, with the same exit code."""

    def broken(*_):
        raise error

    monkeypatch.setattr(checkpoint, "save", broken)
    one.begin()
    with pytest.raises(CheckpointFailure, match="no checkpoint could be written") as caught:
        settled(one).problem()
    assert caught.value.exit_code == 74


def test_the_last_checkpoint_comes_after_the_one_that_is_being_written(
    one, core, tmp_path, monkeypatch
):
    """Both are written, in order."""
    go, save = threading.Event(), checkpoint.save
    monkeypatch.setattr(
        checkpoint, "save", lambda folder, taken: go.wait(10) and save(folder, taken)
    )
    one.begin()
    core.state.updates = 7
    threading.Timer(0.01, go.set).start()
    one.finish()
    assert [manifest.facts(tmp_path, name)["updates"] for name in ("000001", "000002")] == [0, 7]


def test_the_end_does_not_wait_for_ever(one, monkeypatch):
    """A disk that hangs is named."""
    go = threading.Event()
    monkeypatch.setattr(saver, "FINAL_S", 0.01)
    monkeypatch.setattr(checkpoint, "save", lambda *_: go.wait(10))
    with pytest.raises(CheckpointFailure, match=r"was not written within 0\.01 s"):
        one.finish()
    go.set()
    settled(one)


def test_the_journal_is_synced_before_the_checkpoint_counts_and_pruned_after(
    one, tmp_path, monkeypatch, caplog
):
    """And the replay's hash is said, with its place."""
    order, save = [], checkpoint.save
    place = {POSITION: [3, 640], REPLAY_HASH: "abc"}
    one.archive = SimpleNamespace(
        place=lambda size: place,
        secure=lambda last: order.append(f"secure {last}"),
        prune=lambda: order.append("prune"),
    )
    monkeypatch.setattr(checkpoint, "save", lambda *both: order.append("save") or save(*both))
    with caplog.at_level("INFO"):
        one.begin()
        settled(one)
    assert order == ["secure 3", "save", "prune"]
    assert "with the replay abc as of journal 3:640" in caplog.text
