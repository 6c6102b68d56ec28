"""Crash-safe writes."""

import os
import stat
from pathlib import Path

import pytest

from farflung.common.process import atomic_file


def test_write_replaces_the_content_and_leaves_no_draft(tmp_path):
    """The file has the new content; nothing else is in the folder."""
    path = tmp_path / "file"
    for content in (b"old", b"new"):
        atomic_file.write(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_write_syncs_the_draft_before_it_takes_the_name_and_the_folder_after(tmp_path, monkeypatch):
    """Else a power cut could leave the name on a file without content, or lose the name."""
    order = []
    sync, rename = os.fsync, Path.rename
    name_of = lambda descriptor: Path(f"/proc/self/fd/{descriptor}").readlink().name  # noqa: E731
    monkeypatch.setattr(os, "fsync", lambda file: order.append(name_of(file)) or sync(file))
    monkeypatch.setattr(
        Path, "rename", lambda path, target: order.append("rename") or rename(path, target)
    )
    atomic_file.write(tmp_path / "file", b"content")
    assert order == [f".file.{os.getpid()}.draft", "rename", tmp_path.name]


def test_write_applies_the_mode_whatever_a_killed_process_left(tmp_path):
    """A draft of a killed process with the same number is replaced, not written into."""
    left = tmp_path / f".file.{os.getpid()}.draft"
    left.write_bytes(b"half")
    left.chmod(0o666)
    atomic_file.write(tmp_path / "file", b"secret", 0o600)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    assert (tmp_path / "file").read_bytes() == b"secret"


def test_write_that_fails_keeps_the_old_content_and_removes_its_draft(tmp_path, monkeypatch):
    """As on a full disk."""
    path = tmp_path / "file"
    atomic_file.write(path, b"old")

    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        atomic_file.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_truncate_cuts_a_file(tmp_path):
    """Bytes beyond the size are gone."""
    (tmp_path / "file").write_bytes(b"123456")
    atomic_file.truncate(tmp_path / "file", 4)
    assert (tmp_path / "file").read_bytes() == b"1234"


def test_make_folder_makes_missing_parents(tmp_path):
    """Each, and an existing folder is accepted."""
    for _ in range(2):
        atomic_file.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize(
    ("name", "expected"),
    [(".run.json.12.draft", True), ("run.json", False), ("notes.draft", False)],
)
def test_is_draft_knows_drafts_by_name(name, expected):
    """A user's own file is none."""
    assert atomic_file.is_draft(Path(name)) is expected
