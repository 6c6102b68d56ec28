"""Whole sweeps with learners that take no time: killed at every write, failed, pruned, seeded."""

import importlib
import shutil
import sys

import pytest
from optuna.storages import _CachedStorage
from support.runs import a_run
from support.sweeps import Learners, a_plan, sweep_through

from farflung.common.process.errors import ConfigurationError
from farflung.common.process.lifecycle import Stop
from farflung.learner.runs.reading import read
from farflung.learner.storage import run_folder
from farflung.learner.sweeps import report, runs, study, sweep
from farflung.learner.sweeps.curve import judged

pytestmark = pytest.mark.slow

WRITES = (
    "create_new_trial",
    "set_trial_param",
    "set_trial_intermediate_value",
    "set_trial_user_attr",
    "set_trial_state_values",
)  # of Optuna's storage


class Killed(BaseException):
    """Stands for kill -9: no code of the sweep may catch it."""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No wait between two looks."""
    monkeypatch.setattr(sweep, "LOOK_S", 0.0)


@pytest.fixture
def learners(monkeypatch):
    """Return a function that sets what learners play."""

    def set_them(plays):
        made = Learners(plays)
        monkeypatch.setattr(runs, "Process", made)
        return made

    return set_them


def rising(trial, seed, settings):
    """Trial 3 is the best."""
    return [float(at * (3 if trial == 3 else 1)) for at in range(1, 5)]


def killed_at(monkeypatch, write):
    """Let the process die at one write to storage, or at one start of a learner."""
    count = 0

    def wrap(function):
        def counted(*words, **named):
            nonlocal count
            count += 1
            if count == write:
                raise Killed
            return function(*words, **named)

        return counted

    for name in WRITES:
        monkeypatch.setattr(_CachedStorage, name, wrap(getattr(_CachedStorage, name)))
    monkeypatch.setattr(runs.TrialRun, "start", wrap(runs.TrialRun.start))
    return lambda: count


def begun(place, name):
    """Return a folder with a copy of the empty study, which takes longest to make."""
    folder = place / name
    folder.mkdir()
    shutil.copy(place / study.FILE, folder)
    return folder


@pytest.mark.timeout(300)
def test_sweep_killed_before_each_write_has_each_trial_once(tmp_path, monkeypatch, learners):
    """The next process goes on: no trial is lost, begun twice or counted twice."""

    def rising(trial, seed, settings):
        return [2.0, 4.0]

    fixed = ("pruner = 'none'", "prune-mean-of = 1", "sampler = 'random'")
    plan = a_plan(tmp_path, "trials = 2", *fixed)
    learners(rising)
    study.Study(tmp_path, plan)
    undisturbed = sweep_through(plan, begun(tmp_path, "undisturbed")).study.rows()
    assert [row.state for row in undisturbed] == ["complete"] * 2
    write, writes = 0, 1
    while write < writes:
        write += 1
        folder = begun(tmp_path, f"killed-{write}")
        with monkeypatch.context() as patch:
            written = killed_at(patch, write)
            try:
                sweep_through(plan, folder)
            except Killed:
                writes = write + 1
        made = learners(rising)
        rows = sweep_through(plan, folder).study.rows()
        assert [(row.number, row.state, row.value) for row in rows] == [
            (number, "complete", 4.0) for number in range(2)
        ]
        assert [row.chosen for row in rows] == [row.chosen for row in undisturbed]
        assert len(set(made.started)) == len(made.started)
    # The last round came to its end, so each write had its turn: of each trial its beginning, two
    # values, the start of its run, two marks and its end.
    assert written() == write - 1 == 2 * (1 + 2 + 1 + 2 + 1)


def test_best_is_complete_and_a_failed_trial_is_not(tmp_path, learners):
    """Trial 1 diverged after the highest evaluation of all; its reason is kept."""

    def plays(trial, seed, settings):
        return 65 if trial == 1 else rising(trial, seed, settings)

    learners(plays)
    plan = a_plan(tmp_path, "trials = 5", "pruner = 'none'")
    done = sweep_through(plan, tmp_path / "toy").study
    rows = done.rows()
    assert [row.state for row in rows] == [
        "complete",
        "failed",
        "complete",
        "complete",
        "complete",
    ]
    assert (rows[1].value, rows[1].reason) == (None, "exit code 65: as asked")
    assert done.best().number == 3
    assert done.best().value == 12.0


def test_lowest_is_best_where_the_objective_is_minimized(tmp_path, learners):
    """Steps until a goal: fewer are better."""
    learners(lambda trial, seed, settings: [1.0] * (4 - trial))
    words = "trials = 3", "objective = 'steps'", "take = 'last'", "direction = 'minimize'"
    plan = a_plan(tmp_path, *words)
    assert not plan.prunes
    best = sweep_through(plan, tmp_path / "toy").study.best()
    assert (best.number, best.value) == (2, 200.0)


def test_trial_counts_with_the_mean_over_its_seeds(tmp_path, learners):
    """A run for each, one after the other: (4 + 104) / 2."""
    made = learners(lambda trial, seed, settings: [4.0 + 100 * (seed == 7)])
    plan = a_plan(tmp_path, "trials = 2", "seeds = [0, 7]")
    done = sweep_through(plan, tmp_path / "toy", at_once=1).study
    assert [row.value for row in done.rows()] == [54.0, 54.0]
    assert made.started == [f"trial-00{trial}-seed-{seed}" for trial in (0, 1) for seed in (0, 7)]


def test_trial_that_falls_behind_is_pruned_with_its_record(tmp_path, learners, monkeypatch):
    """Its process is ended, its folder has the reason, and it is not the best."""
    long = "ends when it is stopped"
    made = learners(lambda trial, seed, settings: [9.0] * 3 if trial < 2 else [1.0, 0.0, 2.0, 99.0])
    looks = runs.TrialRun.look

    def at_work_until_stopped(run):
        seen = looks(run)
        if run.name in set(made.started) - set(made.stopped) and "trial-002" in run.name:
            return sweep.Seen(sweep.state.Phase.WORKING, seen.value, long)
        return seen

    monkeypatch.setattr(runs.TrialRun, "look", at_work_until_stopped)
    monkeypatch.setattr(runs.TrialRun, "stop", lambda run: made.stopped.append(run.name))
    plan = a_plan(tmp_path, "trials = 3", "prune-after-trials = 2")
    done = sweep_through(plan, tmp_path / "toy", at_once=1).study
    row = done.rows()[2]
    reason = "a mean of 1 over 3 figures, after 300 steps, is worse than the median"
    assert (row.state, row.reason) == ("pruned", reason)
    assert made.stopped == ["trial-002-seed-0"]
    assert done.best().number in (0, 1)


@pytest.mark.parametrize(("mean_of", "pruned_at"), [(1, 1), (2, 2), (3, 0)])
def test_one_poor_evaluation_prunes_no_trial(tmp_path, mean_of, pruned_at):
    """By hand: 0 and (0 + 6) / 2 are below the median of 9, and (0 + 6 + 21) / 3 is not."""
    (tmp_path / "toy").mkdir()
    plan = a_plan(tmp_path, "prune-after-trials = 2", f"prune-mean-of = {mean_of}")
    made = study.Study(tmp_path / "toy", plan)

    def report(*values):
        trial = made.ask()
        points = [(100 * at, value) for at, value in enumerate(values, start=1)]
        return trial, trial.report(judged(points, 100, plan.sweep.prune_mean_of))

    for _ in range(2):
        trial, mark = report(9.0, 9.0, 9.0)
        assert mark == 0
        made.complete(trial, 9.0)
    assert report(0.0, 6.0, 21.0)[1] == pruned_at


def test_word_of_a_pruned_run_is_in_its_folder(tmp_path):
    """`learner runs` shows it in place of the signal."""
    plan = a_plan(tmp_path, "trials = 1")
    a_run(tmp_path, runs.run_name(0, 0))
    trial = study.Study(tmp_path, plan).ask()
    runs.TrialRun(plan, tmp_path, trial, 0).note("pruned: too low")
    assert read(tmp_path / runs.run_name(0, 0)).why == "pruned: too low"


def test_sweep_stops_when_all_trials_fail(tmp_path, learners):
    """The same mistake would fail all the others."""
    learners(lambda trial, seed, settings: 78)
    plan = a_plan(tmp_path, "trials = 50")
    with pytest.raises(ConfigurationError, match=r"all 3 trials failed.*exit code 78: as asked"):
        sweep_through(plan, tmp_path / "toy", at_once=1)


def test_run_that_is_killed_goes_on(tmp_path, learners):
    """As often as a restart may help, and then its trial fails."""
    ends = iter([-9, 75, [5.0], -9, -9, -9, [5.0]])
    made = learners(lambda trial, seed, settings: next(ends))
    plan = a_plan(tmp_path, "trials = 3")
    rows = sweep_through(plan, tmp_path / "toy", at_once=1).study.rows()
    assert [row.state for row in rows] == ["complete", "failed", "complete"]
    assert len(made.started) == 7
    assert "ended 3 times" in rows[1].reason


def test_more_trials_may_be_asked_for_later(tmp_path, learners):
    """The sweep goes on with what it knows; other settings are refused by name."""
    learners(rising)
    sweep_through(a_plan(tmp_path, "trials = 2"), tmp_path / "toy")
    rows = sweep_through(a_plan(tmp_path, "trials = 4"), tmp_path / "toy").study.rows()
    assert [row.number for row in rows] == [0, 1, 2, 3]
    with pytest.raises(ConfigurationError, match="began with other seeds, so"):
        sweep_through(a_plan(tmp_path, "trials = 4", "seeds = [5]"), tmp_path / "toy")


def test_study_that_cannot_be_read_is_named(tmp_path):
    """SQLite has a word for it."""
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / study.FILE).write_bytes(b"nonsense" * 1000)
    with pytest.raises(ConfigurationError, match="cannot be read as the study of toy"):
        study.Study(folder, a_plan(tmp_path))


def test_study_that_was_half_made_is_made_again(tmp_path):
    """A kill while its tables were written left a draft."""
    plan = a_plan(tmp_path)
    (tmp_path / ".study.db.draft").write_bytes(b"half of it")
    assert study.Study(tmp_path, plan).begun == 0


def test_report_names_the_best_and_the_commands(tmp_path, learners):
    """Its settings are a file that the learner takes, with the seed of its run."""
    learners(rising)
    plan = a_plan(tmp_path, "trials = 4", "pruner = 'none'")
    done = sweep_through(plan, tmp_path / "toy").study
    best = done.best()
    text = report.text(plan, tmp_path / "toy", done.rows(), best)
    assert "4 of 4 trials begun: 4 complete, 0 pruned, 0 failed, 0 running\n" in text
    assert "best: trial 3, best evaluation 12 with the seed 0\n" in text
    assert f"learner --config {tmp_path}/toy/best.toml " in text
    assert "the same command" not in text
    other = a_plan(tmp_path, "trials = 5")
    assert "the same command goes on" in report.text(other, tmp_path, done.rows(), best)
    settings = report.best_settings(plan, best)
    assert f"learning-rate = {best.chosen['dqn.learning-rate']!r}\n" in settings
    assert "\nseed = 0\n" in settings


def test_second_sweep_in_a_folder_is_refused(tmp_path, monkeypatch):
    """Two of them would begin trials under the same numbers."""
    monkeypatch.setattr(run_folder, "PATIENCE_S", 0.02)
    plan = a_plan(tmp_path)
    (tmp_path / "toy").mkdir()
    with (
        run_folder.exclusive(tmp_path / "toy" / sweep.LOCK, "taken"),
        pytest.raises(ConfigurationError, match="another process works at the sweep in"),
    ):
        sweep.run(plan, tmp_path, 1, Stop(), print)


def test_missing_optuna_is_named(monkeypatch):
    """With the words that install it."""
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, study.__name__)
    with pytest.raises(ConfigurationError, match=r"pip install 'farflung\[sweep\]'"):
        importlib.import_module(study.__name__)
