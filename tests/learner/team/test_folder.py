"""The folder of a team: new, continued, or refused."""

import pytest
from support.learners import a_config

from farflung.common.process.errors import ConfigurationError
from farflung.learner.config import TEAM_SETTINGS
from farflung.learner.storage.run_folder import FACTS, FINISHED
from farflung.learner.team.folder import Folder, choose


def a_team(place, name, *, environment="hunt", finished=()):
    """Make the folder of a team with the runs red and blue."""
    folder = Folder(place / name)
    with folder.locked():
        folder.write(f'env = "{environment}"\n')
    for policy in ("red", "blue"):
        journal = folder.path / policy / "journal"
        journal.mkdir(parents=True)
        (journal / "1.log").touch()
        (folder.path / policy / FACTS).touch()
        if policy in finished:
            (folder.path / policy / FINISHED).write_text("all is learned\n")
    return folder


def asked(place, **changes):
    """Return settings of a team in this place."""
    return a_config(
        mode="async", environment="hunt", policies="auto", run_dir=str(place), **changes
    )


def test_a_new_team_has_a_folder_of_its_name(tmp_path):
    """One that holds something is refused, with the flag that continues it."""
    assert choose(asked(tmp_path, name="new")) == Folder(tmp_path / "new")
    old = a_team(tmp_path, "old")
    with pytest.raises(ConfigurationError, match="--resume"):
        choose(asked(tmp_path, name="old"))
    assert choose(asked(tmp_path, resume=str(old.path))) == old


def test_auto_continues_the_newest_unfinished_team_of_a_world(tmp_path):
    """Not one of another world, nor one of which all policies have reached their goals."""
    a_team(tmp_path, "done", finished=("red", "blue"))
    a_team(tmp_path, "other", environment="chess")
    assert choose(asked(tmp_path, resume="auto")).path.name not in ("done", "other")
    half = a_team(tmp_path, "half", finished=("red",))
    assert choose(asked(tmp_path, resume="auto")) == half
    (tmp_path / "other" / TEAM_SETTINGS).write_text("no TOML")
    assert choose(asked(tmp_path, resume="auto")) == half


def test_a_team_at_work_keeps_others_out(tmp_path):
    """Until it ends."""
    folder = a_team(tmp_path, "one")
    with (
        folder.locked(),
        pytest.raises(ConfigurationError, match="stop it first"),
        folder.locked(),
    ):
        pass
    with folder.locked():
        pass


def test_verdicts_are_those_of_the_runs(tmp_path):
    """A policy that goes on has none."""
    folder = a_team(tmp_path, "one", finished=("red",))
    assert (folder.verdict("red"), folder.verdict("blue")) == ("all is learned", "")
    assert folder.finished("red")
    assert not folder.finished("blue")
