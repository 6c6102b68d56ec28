"""A checkpoint is there whole or not at all, at any failure on the way."""

import errno
import os
import shutil
from pathlib import Path

import pytest
import torch

from farflung.common.process import descriptors
from farflung.common.process.errors import ConfigurationError, Diverged
from farflung.learner.storage import checkpoint, manifest
from farflung.learner.storage.checkpoint import FACTS, MANIFEST, TENSORS, Checkpoint


def numbered(number):
    return Checkpoint({"weight": torch.full((2, 3), float(number))}, {"steps": number})


def newest(folder):
    found = checkpoint.load(folder)
    assert (
        float(found.tensors["weight"][0, 0]) == found.facts["steps"]
    )  # tensors and facts are of one checkpoint
    return found.facts["steps"]


def listed(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_checkpoint_is_loaded_as_it_was_saved(tmp_path):
    """Tensors to the bit with their types, and the facts beside them."""
    tensors = {
        "a": torch.tensor([1.5, -0.0, 1e-30]),
        "b": torch.tensor(7),
        "c": torch.zeros(0, dtype=torch.uint8),
    }
    folder = checkpoint.save(
        tmp_path, Checkpoint(tensors, {"steps": 3, "run": "one", "nested": [1, 2.5, None]})
    )
    found = checkpoint.load(tmp_path)
    assert folder == tmp_path / "checkpoints" / "000001"
    assert {name: (t.dtype, t.tolist()) for name, t in found.tensors.items()} == {
        name: (t.dtype, t.tolist()) for name, t in tensors.items()
    }
    assert found.facts == {"steps": 3, "run": "one", "nested": [1, 2.5, None]}


def test_checkpoint_holds_tied_weights_separately(tmp_path):
    """Tensors that share memory, or are views into a larger one, are written one by one."""
    vector = torch.arange(6.0)
    tensors = {"a": vector, "tied": vector, "view": vector[2:4], "turned": vector.reshape(2, 3).T}
    checkpoint.save(tmp_path, Checkpoint(checkpoint.copies(tensors)))
    found = checkpoint.load(tmp_path).tensors
    assert (found["tied"].tolist(), found["view"].tolist()) == (vector.tolist(), [2.0, 3.0])
    assert found["turned"].tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]


def test_last_three_checkpoints_are_kept(tmp_path):
    """Of five the oldest two are gone, from the manifest and from disk."""
    for number in range(1, 6):
        checkpoint.save(tmp_path, numbered(number))
    assert (
        (tmp_path / MANIFEST).read_text().split()
        == listed(tmp_path)
        == ["000003", "000004", "000005"]
    )
    assert newest(tmp_path) == 5


def test_archive_stays_while_checkpoints_come_and_go(tmp_path):
    """Its versions are no checkpoints of the past."""
    archived = tmp_path / "checkpoints" / "archive" / "1.3"
    archived.parent.mkdir(parents=True)
    archived.write_bytes(b"weights")
    for number in range(1, 6):
        checkpoint.save(tmp_path, numbered(number))
    assert archived.read_bytes() == b"weights"
    assert listed(tmp_path) == ["000003", "000004", "000005", "archive"]


def test_rollback_takes_the_newest_checkpoint(tmp_path):
    """Its tensors; where there is none yet, the exit code is that of data that cannot be used."""
    with pytest.raises(Diverged, match="there is no checkpoint yet") as caught:
        checkpoint.last_good(tmp_path)
    assert caught.value.exit_code == 65
    for number in (1, 2):
        checkpoint.save(tmp_path, numbered(number))
    assert checkpoint.last_good(tmp_path)["weight"].unique().tolist() == [2.0]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("place", ["load_file", "facts", "kept"])
def test_rollback_waits_for_a_file_descriptor(tmp_path, monkeypatch, place, number):
    """An older checkpoint is not taken in place of the newest one, which is whole."""
    for one in (1, 2):
        checkpoint.save(tmp_path, numbered(one))
    monkeypatch.setattr(descriptors, "AGAIN_S", 0.0)
    owner = checkpoint if place == "load_file" else manifest
    right, failures = getattr(owner, place), [number] * 3

    def exhausted(*arguments):
        if failures:
            raise OSError(failures.pop(), "Too many open files")
        return right(*arguments)

    monkeypatch.setattr(owner, place, exhausted)
    assert checkpoint.last_good(tmp_path)["weight"].unique().tolist() == [2.0]
    assert failures == []


def test_load_refuses_a_folder_without_a_checkpoint(tmp_path):
    """The folder is named."""
    with pytest.raises(ConfigurationError, match="has no checkpoint"):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize("name", [TENSORS, FACTS])
def test_load_names_a_damaged_file(tmp_path, name):
    """A file that was cut short is not half loaded."""
    folder = checkpoint.save(tmp_path, numbered(1))
    (folder / name).write_bytes((folder / name).read_bytes()[:3])
    with pytest.raises(ConfigurationError, match=r"checkpoints/000001 cannot be read"):
        checkpoint.load(tmp_path)


class Crash(Exception):
    """The process ends here."""


def crash_at(monkeypatch, step):
    """Lets the step-th call into the file system fail, counted over everything that a save does."""
    count = 0

    def failing(function):
        def call(*arguments, **options):
            nonlocal count
            count += 1
            if count == step:
                raise Crash
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(os, "fsync", failing(os.fsync))
    monkeypatch.setattr(os, "open", failing(os.open))
    monkeypatch.setattr(shutil, "rmtree", failing(shutil.rmtree))
    monkeypatch.setattr(checkpoint, "save_file", failing(checkpoint.save_file))
    for name in ("mkdir", "write_bytes", "write_text", "rename"):
        monkeypatch.setattr(Path, name, failing(getattr(Path, name)))
    return lambda: count


def saved(folder, number):
    """Return True if saving went through."""
    try:
        checkpoint.save(folder, numbered(number))
    except Crash:
        return False
    return True


@pytest.mark.slow
def test_crash_at_any_step_of_a_save_leaves_a_whole_checkpoint(tmp_path, monkeypatch):
    """A save may end at each call to the disk: the old or the new one is loaded then."""
    found, step, through = [], 0, False
    while not through:
        step += 1
        folder = tmp_path / str(step)
        checkpoint.save(folder, numbered(1))
        with monkeypatch.context() as patch:
            crash_at(patch, step)
            through = saved(folder, 2)
        found.append(newest(folder))
        assert saved(folder, 3)
        assert newest(folder) == 3
        assert (folder / MANIFEST).read_text().split() == listed(folder)
    assert found == sorted(
        found
    )  # one moment from which the new one counts, and it never goes back
    assert (found[0], found[-1]) == (1, 2)
    assert step > 15


def test_crash_in_the_first_save_leaves_no_checkpoint(tmp_path, monkeypatch):
    """Half a checkpoint on disk is not loaded: the manifest is what counts."""
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(Crash))
        assert not saved(tmp_path, 1)
    assert (tmp_path / "checkpoints" / "000001" / TENSORS).exists()
    with pytest.raises(ConfigurationError, match="has no checkpoint"):
        checkpoint.load(tmp_path)


def test_save_syncs_the_bytes_before_the_name(tmp_path, monkeypatch):
    """Both files and folders are synced before the manifest takes its name, the name after."""
    order = []
    sync, rename = os.fsync, Path.rename
    name_of = lambda descriptor: Path(f"/proc/self/fd/{descriptor}").readlink().name  # noqa: E731
    monkeypatch.setattr(os, "fsync", lambda file: order.append(name_of(file)) or sync(file))
    monkeypatch.setattr(
        Path, "rename", lambda path, target: order.append("rename") or rename(path, target)
    )
    checkpoint.save(tmp_path, numbered(1))
    assert order == [
        TENSORS,
        FACTS,
        "000001",
        "checkpoints",
        f".{MANIFEST}.{os.getpid()}.draft",
        "rename",
        tmp_path.name,
    ]
