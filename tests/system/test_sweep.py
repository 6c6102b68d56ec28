"""A sweep of real learners, killed with -9 in the middle and started again."""

import re
import signal
import sqlite3
import tomllib

import psutil
import pytest
from support.programs import lives
from support.waiting import eventually

from farflung.learner.runs.reading import RunState, read

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.faults, pytest.mark.timeout(600)]

FILE = """\
[sweep]
trials = 8
objective = "return"
take = "last"
pruner = "none"
[learner]
env = "CartPole-v1"
actors = 1
steps = 1500
evaluate-every = 0
warmup = 300
replay-ratio = 2
[space.dqn]
learning-rate = { low = 1e-4, high = 1e-2, log = true }
hidden = [[32], [64]]
"""
SWEEP_S = 300.0


def test_killed_sweep_goes_on_with_each_trial_once(house):
    """Eight trials of CartPole, two at a time: eight results, none twice, and a best one that runs.

    Kill -9 comes while two trials are at work. Their learners end by themselves, and the next start
    goes on with them.
    """
    shell, folder = house, house.folder / "sweeps" / "toy"
    (shell.folder / "toy.toml").write_text(FILE)
    first = shell.start("learner", "sweep", "toy.toml", "--at-once", 2)
    first.says(r"trial 1 complete", SWEEP_S)
    first.until(lambda: two_work(first), "two learners at work", SWEEP_S)
    survivors = first.children()
    first.process.kill()
    first.process.wait()
    eventually(lambda: not any(map(lives, survivors)), "learners to end by themselves", 120.0)
    begun_before = trials(folder)
    assert {"COMPLETE", "RUNNING"} == {state for _, state, _ in begun_before}

    second = shell.start("learner", "sweep", "toy.toml", "--at-once", 2)
    assert second.ended(SWEEP_S) == 0, second.said
    assert "8 of 8 trials begun: 8 complete, 0 pruned, 0 failed, 0 running" in second.said
    found = trials(folder)
    assert [(number, state) for number, state, _ in found] == [(n, "COMPLETE") for n in range(8)]
    kept = [each for each in begun_before if each[1] == "COMPLETE"]
    assert set(kept) <= set(found)  # with the same figures
    runs = sorted(folder.glob("trial-*"))
    assert [run.name for run in runs] == [f"trial-{number:03}-seed-0" for number in range(8)]
    summaries = [read(run) for run in runs]
    assert {summary.state for summary in summaries} == {RunState.FINISHED}
    for (_, _, value), summary in zip(found, summaries, strict=True):
        assert value == pytest.approx(summary.return_mean)
    assert len({summary.settings["dqn.learning-rate"] for summary in summaries}) == 8

    best = int(re.search(r"best: trial (\d)", second.said)[1])
    assert found[best][2] == max(value for _, _, value in found)
    ordinary = shell.learner("--config", folder / "best.toml", "--name", "ordinary")
    assert ordinary.ended() == 0, ordinary.said
    settings = tomllib.loads((shell.folder / "runs/ordinary/config.toml").read_text())
    assert settings["dqn"]["learning-rate"] == summaries[best].settings["dqn.learning-rate"]


def test_ctrl_c_ends_all_trials_and_the_next_start_goes_on(house):
    """No process is left, and trials that were begun are not lost."""
    (house.folder / "brief.toml").write_text(FILE.replace("trials = 8", "trials = 2"))
    words = "learner", "sweep", "brief.toml", "--at-once", 2
    first = house.start(*words)
    first.until(lambda: two_work(first), "two learners at work", SWEEP_S)
    children = first.children()
    first.send(signal.SIGINT)
    assert first.ended() == 130
    assert not any(map(lives, children))
    assert "2 of 2 trials begun: 0 complete, 0 pruned, 0 failed, 2 running" in first.said
    second = house.start(*words)
    assert second.ended(SWEEP_S) == 0, second.said
    assert "2 of 2 trials begun: 2 complete" in second.said


def two_work(sweep):
    """Return whether a sweep has two learners, of which one at least has its actor by now.

    Two that have actors at one moment may never be there: a trial trains shorter than it starts.
    """
    try:
        learners = [*filter(lives, psutil.Process(sweep.pid).children())]
        return len(learners) == 2 and any(learner.children() for learner in learners)
    except psutil.NoSuchProcess:  # one ended since the line above
        return False


def trials(folder):
    """Return number, state and value of all trials, past Optuna."""
    with sqlite3.connect(f"file:{folder / 'study.db'}?mode=ro", uri=True) as database:
        return database.execute(
            "select number, state, value from trials left join trial_values using (trial_id) "
            "order by number"
        ).fetchall()
