"""The record of `make patience`: runs in a row, and the code that they were runs of."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import patience
import pytest
from patience import Run

ONE = Run("2026-01-01T00:00:00+00:00", "aaaa", "1", 0, 300, 1.0, True, "10 passed in 300s")
BUSY = replace(ONE, loops=patience.LOOPS, seconds=500)
FAILED = replace(ONE, passed=False)
LATER = replace(ONE, commit="bbbb", code="2")


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([], "there was no run yet"),
        ([ONE, FAILED], "the newest of 2 runs failed"),
        (
            [ONE, BUSY],
            "2 runs in a row passed at aaaa, 1 of them beside 4 busy loops; of all 2 runs 0 failed",
        ),
        (
            [ONE, FAILED, BUSY],
            "1 run in a row passed at aaaa, 1 of them beside 4 busy loops; of all 3 runs 1 failed",
        ),
        (
            [ONE, BUSY, LATER],
            "1 run in a row passed at bbbb, 0 of them beside 4 busy loops; the code changed "
            "before them (2 at aaaa passed); of all 3 runs 0 failed",
        ),
    ],
)
def test_runs_in_a_row_are_those_of_the_same_code(runs, said):
    """A failure ends a row, and so does a change of the code."""
    assert patience.sentence(runs) == said


def test_runs_with_changes_in_no_commit_are_no_row():
    """Nothing says that two of them had the same code."""
    changed = [replace(ONE, code="", date=f"2026-01-0{day}") for day in (1, 2)]
    assert patience.sentence(changed).startswith(
        "1 run in a row passed at aaaa, 0 of them beside 4 busy loops, with changes"
    )


def test_record_goes_on_and_alternates(tmp_path, monkeypatch):
    """A second call adds to the runs of the first; every other run is beside busy loops."""
    monkeypatch.setattr(patience, "RECORD", tmp_path / "build" / "patience.json")
    monkeypatch.setattr(patience, "PUBLISHED", tmp_path / "published.json")
    monkeypatch.setattr(patience, "test", lambda number, loops: replace(ONE, loops=loops))
    for words in (["--runs", "1"], ["--runs", "2", "--publish"]):
        monkeypatch.setattr("sys.argv", ["patience", *words])
        assert patience.main() == 0
    runs = patience.load(patience.RECORD)
    assert [run.loops for run in runs] == [0, 4, 0]
    assert patience.load(patience.PUBLISHED) == runs
    patience.RECORD.unlink()  # another checkout has only the published one
    monkeypatch.setattr("sys.argv", ["patience", "--runs", "1"])
    assert patience.main() == 0
    assert [run.loops for run in patience.load(patience.RECORD)] == [0, 4, 0, 4]
    text = _page_writer().patience(_page_writer().load(tmp_path)["published"])
    assert "3 runs in a row passed at aaaa, 1 of them beside 4 busy loops" in text
    assert "alone 300 to 300 s" in text


def test_failed_run_is_the_exit_code(tmp_path, monkeypatch):
    """A run that passed long ago does not hide it, and one that failed long ago does not count."""
    monkeypatch.setattr(patience, "RECORD", tmp_path / "patience.json")
    monkeypatch.setattr(patience, "PUBLISHED", tmp_path / "published.json")
    monkeypatch.setattr("sys.argv", ["patience", "--runs", "1"])
    monkeypatch.setattr(patience, "test", lambda number, loops: FAILED)
    assert patience.main() == 1
    monkeypatch.setattr(patience, "test", lambda number, loops: ONE)
    assert patience.main() == 0


def test_code_of_this_tree_has_a_commit():
    """Its hash says which runs were of the same files."""
    commit, files = patience.code()
    assert commit
    assert len(files) in (0, 12)


def _page_writer():
    spec = importlib.util.spec_from_file_location(
        "write", Path(__file__).parents[1] / "docs" / "write.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
