"""Archived versions stay as they were, and the archive is whole after a crash at any moment."""

import json
import os
from pathlib import Path

import pytest
from support.makers import a_spec, some_weights

from farflung.common.data.weights import Version
from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol import tensors
from farflung.learner.storage import archive, policies

SPEC = a_spec()


def add(run, number, *, epoch=1, most=100, value=0.0):
    """Archive a version of these weights."""
    weights = some_weights(SPEC, number, epoch=epoch, steps=number, value=value)
    return archive.add(run, weights, 2 * number, most)


def versions(run):
    """Return the versions that count, each of which must be whole."""
    index = archive.read(run)
    assert list(archive.problems(run)) == []
    for each in index:
        weights = archive.read_weights(run, SPEC, str(each.version))
        assert weights.arrays["matrix"].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    return [str(each.version) for each in index]


def files(run):
    """Return the names in the archive's folder, without the index."""
    return sorted({path.name for path in archive.folder(run).iterdir()} - {archive.INDEX})


def test_version_is_read_as_it_was_archived(tmp_path):
    """Its weights to the bit, under its epoch and number, with the counts of training."""
    add(tmp_path, 3, value=3.5)
    add(tmp_path, 1, epoch=2, value=1.5)
    first, second = archive.read(tmp_path)
    assert (first.number, first.version, first.counts) == (
        1,
        (1, 3),
        {"steps": 3, "updates": 30, "episodes": 6},
    )
    assert (second.number, second.version) == (2, (2, 1))
    for asked, value in (("1.3", 3.5), ("2.1", 1.5)):
        weights = policies.read_weights(tmp_path, SPEC, asked)
        assert str(weights.version) == asked
        assert weights.arrays["matrix"].tolist() == [[value] * 2] * 2


def test_archived_bytes_never_change(tmp_path):
    """A version that is archived is not archived again, and later ones leave it as it was."""
    add(tmp_path, 3)
    path = archive.folder(tmp_path) / "1.3"
    before = path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino
    for number in (3, 2):
        with pytest.raises(ConfigurationError, match=rf"1\.{number} cannot be archived after 1\.3"):
            add(tmp_path, number, value=9.0)
    for number in range(4, 9):
        add(tmp_path, number)
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) == before
    assert path.stat().st_mode & 0o222 == 0
    assert before[0] == bytes(tensors.encode_weights(some_weights(SPEC, 3, steps=3)))


def test_archive_is_bounded_and_keeps_the_first(tmp_path):
    """Of 20 versions six stay: the first, two between, and the newest three; files go too."""
    for number in range(1, 21):
        kept = add(tmp_path, number, most=6)
        assert len(kept) == min(number, 6)
        assert sorted(str(each.version) for each in kept) == files(tmp_path)
    assert versions(tmp_path)[0] == "1.1"
    assert versions(tmp_path)[-3:] == ["1.18", "1.19", "1.20"]
    assert archive.read(tmp_path)[-1].number == 20


def test_smaller_bound_thins_out_at_the_next_version(tmp_path):
    """A run that is resumed with another bound."""
    for number in range(1, 9):
        add(tmp_path, number)
    assert len(add(tmp_path, 9, most=3)) == 3 == len(files(tmp_path))
    assert versions(tmp_path) == ["1.1", "1.8", "1.9"]


def test_run_without_an_archive_has_no_versions(tmp_path):
    """And says how to get some."""
    assert archive.open_archive(tmp_path) == ()
    with pytest.raises(ConfigurationError, match=r"no archived version 1\.4: --archive-every"):
        policies.read_weights(tmp_path, SPEC, "1.4")
    add(tmp_path, 3)
    with pytest.raises(ConfigurationError, match=r"no archived version 1\.4: it has 1\.3"):
        policies.read_weights(tmp_path, SPEC, "1.4")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda data: data[:-1], "not what was archived"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "not what was archived"),
        (None, "cannot be read"),
    ],
)
def test_changed_version_is_named(tmp_path, change, sentence):
    """By a reader and by the audit; the others are still read."""
    add(tmp_path, 3)
    add(tmp_path, 4)
    path = archive.folder(tmp_path) / "1.3"
    data = path.read_bytes()
    path.unlink()
    if change is not None:
        path.write_bytes(change(data))
    with pytest.raises(ConfigurationError, match=sentence):
        archive.read_weights(tmp_path, SPEC, "1.3")
    (problem,) = archive.problems(tmp_path)
    assert sentence in problem
    assert archive.read_weights(tmp_path, SPEC, "1.4").version == (1, 4)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"[" * 5000, b"[{}]"])
def test_damaged_index_is_named(tmp_path, content):
    """It is no reason to begin another archive over the versions that are there."""
    add(tmp_path, 3)
    (archive.folder(tmp_path) / archive.INDEX).write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"index\.json is damaged"):
        archive.open_archive(tmp_path)
    assert files(tmp_path) == ["1.3"]


def test_index_in_another_order_is_damaged(tmp_path):
    """Versions only grow."""
    add(tmp_path, 3)
    add(tmp_path, 4)
    path = archive.folder(tmp_path) / archive.INDEX
    path.write_text(json.dumps(json.loads(path.read_bytes())[::-1]))
    with pytest.raises(ConfigurationError, match="not in their order"):
        archive.read(tmp_path)


def test_bytes_are_synced_before_the_index_names_them(tmp_path, monkeypatch):
    """The file, its name, then the index: none of them is announced before it is on disk."""
    add(tmp_path, 1)
    order = []
    sync, rename = os.fsync, Path.rename
    name_of = lambda descriptor: Path(f"/proc/self/fd/{descriptor}").readlink().name  # noqa: E731
    monkeypatch.setattr(os, "fsync", lambda file: order.append(name_of(file)) or sync(file))
    monkeypatch.setattr(
        Path,
        "rename",
        lambda path, target: order.append(f"to {target.name}") or rename(path, target),
    )
    add(tmp_path, 2)
    drafts = [f".{name}.{os.getpid()}.draft" for name in ("1.2", archive.INDEX)]
    assert order[-6:] == [drafts[0], "to 1.2", "archive", drafts[1], "to index.json", "archive"]


class Crash(BaseException):
    """The process ends here: no clean-up of its own runs."""


def crash_at(monkeypatch, step):
    """Let the process end before or after a call into the file system: each counts as two."""
    count = 0

    def failing(function):
        def call(*arguments, **options):
            nonlocal count
            count += 1
            if count == step:
                raise Crash
            result = function(*arguments, **options)
            count += 1
            if count == step:
                raise Crash
            return result

        return call

    monkeypatch.setattr(os, "fsync", failing(os.fsync))
    monkeypatch.setattr(os, "open", failing(os.open))
    for name in ("mkdir", "rename", "unlink"):
        monkeypatch.setattr(Path, name, failing(getattr(Path, name)))


@pytest.mark.slow
@pytest.mark.parametrize("most", [2, 100])
def test_crash_at_any_step_leaves_all_that_was_announced(tmp_path, monkeypatch, most):
    """Before and after each call to the disk, with and without versions that are thinned out."""
    step, through, found = 0, False, []
    while not through:
        step += 1
        run = tmp_path / str(step)
        announced = []
        for number in (1, 2):
            announced = [str(each.version) for each in add(run, number, most=most)]
        with monkeypatch.context() as patch:
            crash_at(patch, step)
            try:
                announced = [str(each.version) for each in add(run, 3, most=most)]
                through = True
            except Crash:
                pass
        found.append(versions(run))
        after = ["1.1", "1.3"] if most == 2 else ["1.1", "1.2", "1.3"]
        assert found[-1] in (["1.1", "1.2"], after)
        assert found[-1] == announced or found[-1] == after
        assert [str(each.version) for each in archive.open_archive(run)] == found[-1]
        assert files(run) == sorted(found[-1])
        again = add(run, 4, epoch=2, most=most)
        assert str(again[-1].version) == "2.4"
        assert files(run) == sorted(versions(run))
    assert found == sorted(found, key=lambda each: "1.3" in each)  # it never goes back
    assert step > 20


def test_crash_in_the_first_version_leaves_an_empty_archive(tmp_path, monkeypatch):
    """A file that no index names does not count, and goes."""
    with monkeypatch.context() as patch:
        patch.setattr(archive, "_encoded", lambda index: (_ for _ in ()).throw(Crash))
        with pytest.raises(Crash):
            add(tmp_path, 1)
    assert (files(tmp_path), versions(tmp_path)) == (["1.1"], [])
    assert archive.open_archive(tmp_path) == ()
    assert files(tmp_path) == []


def test_full_disk_leaves_no_file_behind(tmp_path, monkeypatch):
    """The index could not be written: the version is gone, and the next one counts."""
    add(tmp_path, 1)
    write = atomic_file.write

    def full(path, *rest):
        if path.name == archive.INDEX:
            raise OSError(28, "No space left on device")
        write(path, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(atomic_file, "write", full)
        with pytest.raises(OSError, match="No space"):
            add(tmp_path, 2)
    assert files(tmp_path) == ["1.1"]
    add(tmp_path, 3)
    assert versions(tmp_path) == ["1.1", "1.3"]


def test_version_is_named_by_epoch_and_number():
    """As its file is."""
    assert str(Version(2, 40)) == "2.40"
