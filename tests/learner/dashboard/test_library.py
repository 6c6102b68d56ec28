"""Runs by their keys: heard, read from folders, and both."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.dashboards import STATUS, course
from support.runs import a_run, add, point

from farflung.learner.dashboard import documents, library
from farflung.learner.dashboard.folder_run import FolderRun
from farflung.learner.dashboard.folders import Folders
from farflung.learner.dashboard.library import LIVE, Library, key_of
from farflung.learner.dashboard.live import HEARD_S, RETURN

KEY = key_of(STATUS.run, STATUS.policy)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock."""
    return Clock()


@pytest.fixture
def runs(clock: Clock) -> Library:
    """A library without runs."""
    return Library(clock, clock)


@pytest.fixture
def look(tmp_path: Path, runs: Library) -> Callable[[], Folders]:
    """Returns the folders of this test, looked at."""

    def look() -> Folders:
        folders = Folders([tmp_path], runs, pytest.fail)
        folders.look()
        return folders

    return look


def test_run_that_is_heard_is_silent_later_and_comes_back(runs: Library, clock: Clock) -> None:
    """A learner that was killed and started again is the same run, with another start."""
    runs.hear(STATUS, "127.0.0.1:5555")
    [run] = runs.all()
    assert documents.brief(run, clock.now)["state"] == "running"
    clock.now += HEARD_S + 1
    assert documents.brief(run, clock.now)["state"] == "silent"
    assert documents.detail(run, clock.now)["silent_s"] == HEARD_S + 1
    runs.hear(replace(STATUS, epoch=2, steps=100), "127.0.0.1:5555")
    found = documents.detail(runs.all()[0], clock.now)
    assert (found["run"]["state"], found["starts"], found["silent_s"]) == ("running", 2, 0.0)
    assert runs.table(run, ["time/fps"], 0)["steps"] == [500.0, 500.0]


def test_one_evaluation_is_one_row(runs: Library) -> None:
    """It stands in each status until the next one."""
    course(runs, 5)
    run = runs.find(KEY)
    assert run is not None
    [one] = runs.evaluations(run)
    assert (one.mean, one.version, one.episodes, one.steps) == (400.0, 3, 20, 500)
    runs.hear(replace(STATUS, evaluation=None), "127.0.0.1:5555")
    assert len(runs.evaluations(run)) == 1


def test_runs_on_feeds_are_bounded(runs: Library, clock: Clock) -> None:
    """One more takes the place of a silent one; while all are heard it is left out."""
    for number in range(LIVE + 1):
        runs.hear(replace(STATUS, run=f"run-{number}"), "127.0.0.1:5555")
    assert (len(runs.all()), runs.left_out) == (LIVE, 1)
    clock.now += HEARD_S + 1
    runs.hear(replace(STATUS, run="late"), "127.0.0.1:5555")
    assert len(runs.all()) == LIVE
    assert "late" in {run.live.status.run for run in runs.all() if run.live}


def test_keys_hold_nothing_of_another_machine() -> None:
    """A name on the wire is no part of an address."""
    assert key_of("../../etc", "<script>").isalnum()
    assert key_of("a", "b") != key_of("a\0b", "")


def test_folder_and_feed_are_one_run(
    runs: Library, clock: Clock, tmp_path: Path, look: Callable[[], Folders]
) -> None:
    """Its curves begin with the past that the folder has, and go on with what is heard."""
    made = a_run(tmp_path, "red", *(point(10 * n, **{RETURN: float(n)}) for n in range(5)))
    runs.hear(replace(STATUS, run=made.identity), "127.0.0.1:5555")
    before = runs.table(runs.all()[0], [], 0)
    look()
    [run] = runs.all()
    after = runs.table(run, [], 0)
    assert before["table"] != after["table"]  # so a page reads it from its beginning
    assert (before["rows"], after["rows"]) == (1, 5)
    assert runs.points(run, RETURN, "steps")[1].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    runs.hear(replace(STATUS, run=made.identity, return_mean=9.0), "127.0.0.1:5555")
    assert runs.points(run, RETURN, "steps")[1].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 9.0]
    assert documents.brief(runs.all()[0], clock.now)["name"] == "red"


def test_folder_is_followed_as_it_grows(
    runs: Library, tmp_path: Path, look: Callable[[], Folders]
) -> None:
    """A torn line is read once its end is there, and foreign lines are passed over."""
    made = a_run(tmp_path, "red", point(10, 5.0))
    look()
    [run] = runs.all()
    assert [one.mean for one in runs.evaluations(run)] == [5.0]
    with (made.folder / "metrics.jsonl").open("a") as file:
        file.write('odd\n[1]\n{"time/total_timesteps": 20, "eval/mean_re')
        file.flush()
        assert len(runs.evaluations(run)) == 1
        file.write('ward": 6.0}\n')
    assert [one.mean for one in runs.evaluations(run)] == [5.0, 6.0]


def test_file_that_was_cut_is_read_again(tmp_path: Path) -> None:
    """Figures of a file that is gone do not stay."""
    made = a_run(tmp_path, "red", *(point(n, float(n)) for n in range(4)))
    run = FolderRun(made.folder)
    run.follow()
    (made.folder / "metrics.jsonl").write_text("")
    add(made.folder, point(7, 70.0))
    run.follow()
    assert [one.mean for one in run.evaluations] == [70.0]


def test_line_without_an_end_takes_no_memory(tmp_path: Path) -> None:
    """A file of another program may have one line of many megabytes."""
    made = a_run(tmp_path, "red")
    with (made.folder / "metrics.jsonl").open("a") as file:
        for _ in range(8):
            file.write("x" * (1 << 20))
    add(made.folder, point(1, 1.0))
    add(made.folder, point(2, 2.0))
    run = FolderRun(made.folder)
    run.follow()
    assert [one.mean for one in run.evaluations] == [2.0]  # the first ended the long line
    assert run.curves.nbytes < 3e6


def test_folders_in_memory_are_bounded(
    runs: Library, tmp_path: Path, look: Callable[[], Folders], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were asked for last stay."""
    monkeypatch.setattr(library, "OPEN", 2)
    for name in ("red", "green", "blue"):
        a_run(tmp_path, name, point(1, 1.0))
    look()
    for run in runs.all():
        assert runs.evaluations(run)
    assert len(runs._open) == 2


def test_news_in_folders_are_a_revision(
    runs: Library, tmp_path: Path, look: Callable[[], Folders]
) -> None:
    """A page asks for the list again when it has another number."""
    made = a_run(tmp_path, "red", point(1))
    folders = look()
    first = runs.revision
    folders.look()
    assert runs.revision == first
    add(made.folder, point(2, 1.0))
    folders.look()
    assert runs.revision == first + 1


def test_folder_that_is_missing_may_come(tmp_path: Path, runs: Library) -> None:
    """Before the first run there is no folder runs."""
    folders = Folders([tmp_path / "runs"], runs, pytest.fail)
    folders.look()
    assert "there is no folder" in folders.problem
    a_run(tmp_path / "runs", "red", point(1))
    folders.look()
    assert (folders.problem, len(runs.all())) == ("", 1)


def test_settings_have_their_origins(
    runs: Library, tmp_path: Path, look: Callable[[], Folders]
) -> None:
    """As config.toml names them; a section stands before its keys."""
    a_run(tmp_path, "red", rate=0.002)
    look()
    found = {each["key"]: each for each in documents.settings(runs.all()[0])["settings"]}
    assert found["env"] == {"key": "env", "value": "CartPole-v1", "origin": "flag"}
    assert found["algorithm"]["origin"] == "default"
    assert found["dqn.learning-rate"] == {
        "key": "dqn.learning-rate",
        "value": 0.002,
        "origin": "flag",
    }


def test_policies_of_a_folder_are_named(
    runs: Library, tmp_path: Path, look: Callable[[], Folders]
) -> None:
    """A run without a checkpoint, and one with a damaged list of them."""
    made = a_run(tmp_path, "red")
    look()
    [run] = runs.all()
    nothing = {"best": False, "checkpoints": [], "archived": []}
    assert documents.policies(run) == {"kept": nothing, "standings": None}
    (made.folder / "MANIFEST").write_text("odd words\n")
    assert "is damaged" in documents.policies(run)["kept"]["problem"]
