"""The folder of a run: made once, never mixed with another."""

import json
import os
import re

import pytest

from farflung.common.data.fields import NAME
from farflung.common.process.errors import ConfigurationError
from farflung.learner.storage import run_folder as run_module
from farflung.learner.storage.run_folder import (
    default_name,
    finished,
    new_run,
    open_run,
    unfinished_run,
)


def test_run_writes_its_configuration_and_its_origin(tmp_path):
    """The configuration as resolved, with the writer's versions."""
    run = new_run(str(tmp_path), "one", "CartPole-v1", "seed = 3\n")
    assert run.folder == tmp_path / "one"
    assert (run.folder / "config.toml").read_text() == "seed = 3\n"
    facts = json.loads((run.folder / "run.json").read_text())
    assert facts["run"] == run.identity
    assert {"started", "farflung", "python", "torch", "processors"} <= facts.keys()


def test_runs_of_one_name_have_different_ids(tmp_path):
    """Their ids on the wire differ, so that actors notice."""
    first, second = (new_run(str(tmp_path / place), "one", "CartPole-v1", "") for place in "ab")
    assert first.identity != second.identity
    assert re.fullmatch(r"one-[0-9a-f]{8}", first.identity)


def test_folder_that_holds_a_run_is_refused(tmp_path):
    """It is never written over; the sentence says what to do."""
    new_run(str(tmp_path), "one", "CartPole-v1", "seed = 3\n")
    with pytest.raises(
        ConfigurationError,
        match=r"holds a run already: choose another --name, or continue it with --resume .* --init",
    ):
        new_run(str(tmp_path), "one", "CartPole-v1", "seed = 4\n")
    assert (tmp_path / "one" / "config.toml").read_text() == "seed = 3\n"


def test_refused_run_leaves_its_name_free(tmp_path):
    """Nothing began: the user corrects a flag and tries the same name once more."""
    run = new_run(str(tmp_path), "one", "CartPole-v1", "")
    with pytest.raises(ConfigurationError, match="no such world"), run.attempt():
        raise ConfigurationError("no such world")
    assert new_run(str(tmp_path), "one", "CartPole-v1", "").folder.exists()


@pytest.mark.parametrize("failure", [KeyboardInterrupt, KeyError])
def test_interrupted_or_failed_start_leaves_its_name_free(tmp_path, failure):
    """Ctrl-C while a network is built, or a fault in a user's package."""
    run = new_run(str(tmp_path), "one", "CartPole-v1", "")
    with pytest.raises(failure), run.attempt():
        raise failure
    assert not run.folder.exists()


def test_run_takes_an_empty_folder(tmp_path):
    """A user may have made it beforehand."""
    (tmp_path / "one").mkdir()
    assert new_run(str(tmp_path), "one", "CartPole-v1", "").folder == tmp_path / "one"


def test_file_in_place_of_the_folder_is_named(tmp_path):
    """A file cannot hold a run."""
    (tmp_path / "one").write_text("")
    with pytest.raises(ConfigurationError, match=r"cannot write to .*one: Not a directory"):
        new_run(str(tmp_path), "one", "CartPole-v1", "")


@pytest.mark.parametrize("environment", ["CartPole-v1", "ALE/Pong-v5", "toys/Über-v0", "x" * 100])
def test_run_name_follows_from_any_environment_id(environment):
    """It suits paths and topics, and no two runs share one."""
    name = default_name(environment)
    assert NAME.fullmatch(name)
    assert name != default_name(environment)


def test_long_run_name_leaves_room_for_the_id(tmp_path):
    """64 characters are the most that an id has on the wire."""
    run = new_run(str(tmp_path), "x" * 64, "CartPole-v1", "")
    assert NAME.fullmatch(run.identity)


def test_run_path_makes_missing_parents(tmp_path):
    """A writer need not make folders first."""
    run = new_run(str(tmp_path), "one", "CartPole-v1", "")
    run.file("logs", "deep", "learner.log").write_text("")
    assert (tmp_path / "one" / "logs" / "deep" / "learner.log").exists()


def begun(tmp_path, name, environment="CartPole-v1"):
    """A run with a journal that has begun."""
    run = new_run(str(tmp_path), name, environment, "")
    run.file("journal", "00000001.log").touch()
    return run


def test_open_run_keeps_its_id(tmp_path):
    """By its folder; refusing it leaves the folder as it is."""
    run = begun(tmp_path, "one")
    again = open_run(run.folder)
    assert (again.name, again.identity, again.resumed) == ("one", run.identity, True)
    with pytest.raises(ConfigurationError, match="no such world"), again.attempt():
        raise ConfigurationError("no such world")
    assert run.folder.exists()


@pytest.mark.parametrize("facts", [None, "no json", "[]", "{}", '{"run": "no name"}'])
def test_open_run_refuses_a_folder_without_a_run(tmp_path, facts):
    """In a sentence."""
    if facts is not None:
        (tmp_path / "run.json").write_text(facts)
    with pytest.raises(
        ConfigurationError, match=r"is not the folder of a run|holds no valid run id"
    ):
        open_run(tmp_path)


def test_newest_unfinished_run_of_an_environment_is_found(tmp_path):
    """Not a finished one, one of another environment or one that never began; by name if given."""
    for number, name in enumerate(("old", "new", "finished", "never", "other")):
        run = begun(tmp_path, name, "Acrobot-v1" if name == "other" else "CartPole-v1")
        os.utime(run.folder / "run.json", (number, number))
    (tmp_path / "never" / "journal" / "00000001.log").unlink()
    open_run(tmp_path / "finished").finish("solved", "goal")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("no json")
    found = unfinished_run(str(tmp_path), "", "CartPole-v1")
    assert found is not None
    assert found.name == "new"
    assert unfinished_run(str(tmp_path), "finished", "CartPole-v1") is None
    named = unfinished_run(str(tmp_path), "old", "CartPole-v1")
    assert named is not None
    assert named.name == "old"


def test_start_that_was_cut_short_is_repeated_on_resume(tmp_path):
    """Killed before it promised anything: else a supervisor with --resume auto would be stuck."""
    cut = new_run(str(tmp_path), "one", "CartPole-v1", "seed = 3\n")
    cut.file("logs", "learner.log").touch()
    cut.file(".run.json.1234.draft").touch()  # cut short while it was written
    with pytest.raises(ConfigurationError, match="holds a run already"):
        new_run(str(tmp_path), "one", "CartPole-v1", "seed = 4\n")
    with cut.locked(), pytest.raises(ConfigurationError, match="another learner is at work"):
        new_run(str(tmp_path), "one", "CartPole-v1", "seed = 4\n", again=True)
    run = new_run(str(tmp_path), "one", "CartPole-v1", "seed = 4\n", again=True)
    assert open_run(run.folder).identity == run.identity != cut.identity
    assert (run.folder / "config.toml").read_text() == "seed = 4\n"


@pytest.mark.parametrize("name", ["MANIFEST", "metrics.jsonl", "journal/00000001.log", "notes.txt"])
def test_run_that_has_begun_is_never_started_over(tmp_path, name):
    """A checkpoint, figures, a journal, or anything that is not ours."""
    begun = new_run(str(tmp_path), "one", "CartPole-v1", "")
    begun.file(*name.split("/")).touch()
    with pytest.raises(ConfigurationError, match="holds a run already"):
        new_run(str(tmp_path), "one", "CartPole-v1", "", again=True)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit])
def test_signal_while_the_folder_is_made_leaves_none(tmp_path, monkeypatch, failure):
    """However short that is."""

    def interrupted(run):
        raise failure

    monkeypatch.setattr(run_module, "_facts", interrupted)
    with pytest.raises(failure):
        new_run(str(tmp_path), "one", "CartPole-v1", "")
    assert not (tmp_path / "one").exists()


def test_finished_run_knows_the_goal_that_it_reached(tmp_path):
    """Its verdict is found under that goal only, and not after another start."""
    run = begun(tmp_path, "one")
    assert not finished(run.folder, "goal: --steps 5")
    run.finish("solved", "goal: --steps 5")
    assert finished(run.folder, "goal: --steps 5") == "solved"
    assert not finished(run.folder, "goal: --steps 6")
    with open_run(run.folder).locked():
        assert not finished(run.folder, "goal: --steps 5")


def test_run_folder_admits_one_process(tmp_path):
    """A second one is refused until the first has left."""
    run = begun(tmp_path, "one")
    with (
        run.locked(),
        pytest.raises(ConfigurationError, match="another learner is at work"),
        open_run(run.folder).locked(),
    ):
        pass
    run.finish("solved", "goal")
    with open_run(run.folder).locked():
        assert unfinished_run(str(tmp_path), "one", "") is not None  # its process has not finished
