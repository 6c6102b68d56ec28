"""The folder of a run: made once, never mixed with another."""

import json
import re

import pytest

from common.errors import ConfigurationError
from common.names import NAME
from learner.run import default_name, new_run


def test_a_run_writes_down_what_was_asked_for(tmp_path):
    """The configuration as it was resolved, and who wrote it with what."""
    run = new_run(str(tmp_path), "one", "CartPole-v1", "seed = 3\n")
    assert run.folder == tmp_path / "one"
    assert (run.folder / "config.toml").read_text() == "seed = 3\n"
    facts = json.loads((run.folder / "run.json").read_text())
    assert facts["run"] == run.identity
    assert {"started", "farflung", "python", "torch", "processors"} <= facts.keys()


def test_two_runs_of_one_name_are_told_apart(tmp_path):
    """Their ids on the wire differ, so that actors notice."""
    first, second = (new_run(str(tmp_path / place), "one", "CartPole-v1", "") for place in "ab")
    assert first.identity != second.identity
    assert re.fullmatch(r"one-[0-9a-f]{8}", first.identity)


def test_a_folder_that_holds_a_run_is_refused(tmp_path):
    """It is never written over; the sentence says what to do."""
    new_run(str(tmp_path), "one", "CartPole-v1", "seed = 3\n")
    with pytest.raises(ConfigurationError, match="holds a run already: choose another --name, or --init"):
        new_run(str(tmp_path), "one", "CartPole-v1", "seed = 4\n")
    assert (tmp_path / "one" / "config.toml").read_text() == "seed = 3\n"


def test_a_run_that_is_refused_leaves_its_name_free(tmp_path):
    """Nothing began: somebody mends a flag and tries again under the same name."""
    run = new_run(str(tmp_path), "one", "CartPole-v1", "")
    with pytest.raises(ConfigurationError, match="no such world"), run.attempt():
        raise ConfigurationError("no such world")
    assert new_run(str(tmp_path), "one", "CartPole-v1", "").folder.exists()


@pytest.mark.parametrize("failure", [KeyboardInterrupt, KeyError])
def test_a_start_that_is_interrupted_or_fails_leaves_its_name_free(tmp_path, failure):
    """Ctrl-C while a network is built, or a fault in a user's package."""
    run = new_run(str(tmp_path), "one", "CartPole-v1", "")
    with pytest.raises(failure), run.attempt():
        raise failure
    assert not run.folder.exists()


def test_an_empty_folder_is_taken(tmp_path):
    """Somebody may have made it beforehand."""
    (tmp_path / "one").mkdir()
    assert new_run(str(tmp_path), "one", "CartPole-v1", "").folder == tmp_path / "one"


def test_a_file_in_the_way_is_said(tmp_path):
    """What is no folder cannot hold a run."""
    (tmp_path / "one").write_text("")
    with pytest.raises(ConfigurationError, match=r"cannot write to .*one: Not a directory"):
        new_run(str(tmp_path), "one", "CartPole-v1", "")


@pytest.mark.parametrize("environment", ["CartPole-v1", "ALE/Pong-v5", "toys/Über-v0", "x" * 100])
def test_names_are_made_of_what_names_may_contain(environment):
    """Whatever an environment is called, its run has a name for paths and topics, and no two have the same."""
    name = default_name(environment)
    assert NAME.fullmatch(name)
    assert name != default_name(environment)


def test_a_long_name_leaves_room_for_the_id(tmp_path):
    """64 characters are the most that an id has on the wire."""
    run = new_run(str(tmp_path), "x" * 64, "CartPole-v1", "")
    assert NAME.fullmatch(run.identity)


def test_a_file_in_the_folder_has_its_parents(tmp_path):
    """Whoever writes need not make folders first."""
    run = new_run(str(tmp_path), "one", "CartPole-v1", "")
    run.file("logs", "deep", "learner.log").write_text("")
    assert (tmp_path / "one" / "logs" / "deep" / "learner.log").exists()
