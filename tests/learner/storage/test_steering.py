"""The steering of a run: a file in its folder, which commands write and a learner looks at."""

import json

import pytest

from farflung.common.process.errors import ConfigurationError
from farflung.learner.cli import steer
from farflung.learner.storage import steering
from farflung.learner.storage.steering import Steering, Watch


@pytest.fixture
def run(tmp_path):
    """Return a folder that looks like a run."""
    (tmp_path / "run.json").write_text("{}")
    return tmp_path


def test_commands_change_one_wish_and_keep_the_other(run, capsys):
    """Without a learner at work, the wishes count from its next start."""
    assert steering.read(run) == Steering()
    steer.pause(run)
    steer.set_weight(run, weight=2.5)
    assert steering.read(run) == Steering(paused=True, weight=2.5)
    steer.resume(run)
    assert steering.read(run) == Steering(paused=False, weight=2.5)
    assert "not paused, weight 2.5; no learner is at work" in capsys.readouterr().out


def test_a_team_is_steered_as_a_whole(run, tmp_path):
    """Its folder stands for the runs of all its policies."""
    (tmp_path / "team.toml").write_text("")
    for policy in ("red", "blue"):
        (tmp_path / policy).mkdir()
        (tmp_path / policy / "run.json").write_text("{}")
    steer.pause(tmp_path)
    assert all(steering.read(tmp_path / policy).paused for policy in ("red", "blue"))


@pytest.mark.parametrize("weight", [0.0, -1.0, 1000.0, float("nan")])
def test_weights_that_cannot_be_held_are_refused(run, weight):
    """The file stays as it was."""
    with pytest.raises(ConfigurationError, match="a weight is 0"):
        steer.set_weight(run, weight=weight)
    assert steering.read(run) == Steering()


def test_folder_without_a_run_is_refused(tmp_path):
    """It is named."""
    with pytest.raises(ConfigurationError, match="is not the folder of a run"):
        steer.pause(tmp_path / "none")


def test_watch_returns_each_wish_once(run):
    """Nothing at first, then what was written since the last look."""
    watch = Watch(run)
    assert watch.look() is None
    steering.write(run, Steering(paused=True))
    assert watch.look() == Steering(paused=True)
    assert watch.look() is None
    (run / steering.FILE).unlink()
    assert watch.look() == Steering()


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"paused": 3}), '{"weight": 1e9}', "\x00"])
def test_damaged_file_changes_nothing_and_is_named(run, text):
    """Training goes on as it did."""
    watch = Watch(run)
    (run / steering.FILE).write_text(text)
    assert watch.look() is None
    assert "remove it" in watch.problem
    steering.write(run, Steering(weight=2.0))
    assert watch.look() == Steering(weight=2.0)
    assert watch.problem == ""
