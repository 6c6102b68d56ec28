"""A run as its folder shows it: every state, and folders that are broken."""

import shutil
from datetime import datetime

import pytest
from support.runs import a_run, add, point

from farflung.common.process.errors import ConfigurationError
from farflung.learner.runs.reading import RunState, figures_in, is_run, read
from farflung.learner.storage import run_folder
from farflung.learner.storage.run_folder import is_locked


def test_summary_has_figures_settings_and_age(tmp_path):
    """The best evaluation is the highest, the last one is the newest, of all epochs."""
    lines = point(500, 20.0), point(1000, 90.5), point(1500), point(2000, -3.25), point(2100)
    run = a_run(tmp_path, "one", *lines, seed=7)
    run.finish("solved: evaluation >= 90")
    started = datetime.fromisoformat(read(run.folder).started).timestamp()
    found = read(run.folder, started + 90.0)
    assert (found.name, found.environment, found.algorithm) == ("one", "CartPole-v1", "dqn")
    assert (found.steps, found.updates, found.best, found.last) == (2100, 2, 90.5, -3.25)
    assert (found.state, found.why) == (RunState.FINISHED, "solved: evaluation >= 90")
    assert found.age_s == 90.0
    assert found.settings["seed"] == 7
    assert found.settings["dqn.learning-rate"] == 0.001
    assert found.settings["replay-ratio"] == "inf"  # JSON has no such number


def test_run_is_running_while_its_lock_is_held(tmp_path):
    """And cut short if no last word is there afterwards: the lock ends with a killed process."""
    run = a_run(tmp_path, "one", point(10))
    with run.locked():
        assert read(run.folder).state is RunState.RUNNING
        assert (run.folder / "LOCK").read_text().strip().isdecimal()
    assert read(run.folder).state is RunState.CUT


def test_error_that_ends_a_run_is_its_last_word(tmp_path):
    """The terminal that showed it may be gone. The next attempt removes it."""
    run = a_run(tmp_path, "one", point(10))
    with pytest.raises(ConfigurationError), run.locked():
        raise ConfigurationError("there is no package toys")
    found = read(run.folder)
    assert (found.state, found.why) == (RunState.FAILED, "there is no package toys")
    with run.locked():
        run.end("stopped: SIGTERM")
    found = read(run.folder)
    assert (found.state, found.why) == (RunState.STOPPED, "stopped: SIGTERM")


def test_refused_run_leaves_no_last_word(tmp_path):
    """Its folder is removed, and a note would make it again."""
    run = a_run(tmp_path, "one")
    with pytest.raises(ConfigurationError), run.locked(), run.attempt():
        raise ConfigurationError("no such world")
    assert not run.folder.exists()


def test_reader_of_a_lock_keeps_no_learner_out(tmp_path, monkeypatch):
    """A reader holds the lock for a moment, and a learner that starts then waits for it."""
    run = a_run(tmp_path, "one")
    looks = []
    locks = run_folder._locks

    def busy_at_first(file, how):
        looks.append(how)
        return len(looks) > 3 and locks(file, how)

    monkeypatch.setattr(run_folder, "_locks", busy_at_first)
    with run.locked():
        assert len(looks) == 4


def test_refused_learner_keeps_the_number_of_the_one_at_work(tmp_path, monkeypatch):
    """The lock's file names the process that holds it, not one that tried to."""
    monkeypatch.setattr(run_folder, "PATIENCE_S", 0.02)
    run = a_run(tmp_path, "one")
    with run.locked():
        before = (run.folder / "LOCK").read_text()
        with pytest.raises(ConfigurationError, match="another learner is at work"), run.locked():
            pass
        assert (run.folder / "LOCK").read_text() == before != ""
        assert is_locked(run.folder)


@pytest.mark.parametrize("missing", ["run.json", "config.toml"])
def test_damaged_folder_has_a_summary(tmp_path, missing):
    """With what can be read, and the file that cannot."""
    run = a_run(tmp_path, "one", point(10, 1.0))
    (run.folder / missing).unlink()
    found = read(run.folder)
    assert (found.state, found.steps, found.best) == (RunState.DAMAGED, 10, 1.0)
    assert found.why.startswith(f"{missing}: No such file")
    assert found.environment == "CartPole-v1"


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\xff" * 500, b"[" * 100_000, b"{}", b'"x"', b"null", b'{"started": 3}'],
)
def test_nonsense_in_a_folder_ends_no_listing(tmp_path, content):
    """Each of its files holds something else."""
    run = a_run(tmp_path, "one")
    for name in ("run.json", "config.toml", "metrics.jsonl", "FINISHED", "ENDED"):
        (run.folder / name).write_bytes(content)
    found = read(run.folder)
    assert found.steps is None
    assert found.best is None
    assert is_run(run.folder)


def test_texts_of_a_folder_steer_no_terminal(tmp_path):
    """A folder may come from another machine."""
    run = a_run(tmp_path, "one")
    run.end("stopped: \x1b[2J\u202etxet\nrun  forged")
    (run.folder / "config.toml").write_text('env = "\\u001b[31mX"\n"\\u001bkey" = ["\\u001b"]\n')
    shown = read(run.folder)
    every = [shown.why, shown.environment, *shown.settings, *map(str, shown.settings.values())]
    assert all(text.isprintable() for text in every)
    assert shown.why == "stopped:  [2J txet run forged"


def test_newest_whole_line_counts(tmp_path):
    """A learner may be writing, and a torn line may be in the middle."""
    run = a_run(tmp_path, "one", point(10, 5.0), point(20))
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write('{"time/total_timesteps": 30.0, "eval/mean_rew')
    found = read(run.folder)
    assert (found.steps, found.last) == (20, 5.0)
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write("\n")
    add(run.folder, point(40, 6.0))
    assert (read(run.folder).steps, read(run.folder).last) == (40, 6.0)


def test_figures_that_are_not_finite_are_left_out():
    """As are truth values, texts, and whole numbers that no float holds."""
    line = b'{"a": NaN, "b": Infinity, "c": true, "d": "1", "e": null, "f": 1' + b"0" * 400
    assert figures_in(line + b', "g": 2}') == {"g": 2.0}


def test_folder_without_a_run_is_none(tmp_path):
    """A folder of TensorBoard beside the runs is passed over."""
    (tmp_path / "tb").mkdir()
    assert not is_run(tmp_path / "tb")
    run = a_run(tmp_path, "one")
    shutil.copytree(run.folder, tmp_path / "copy")
    assert is_run(tmp_path / "copy")
