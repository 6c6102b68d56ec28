"""The runs that words on a command line name."""

import pytest
from support.runs import a_run, point

from farflung.common.process.errors import ConfigurationError
from farflung.learner.runs.choosing import folders, ordered, summaries
from farflung.learner.runs.reading import RunState, Summary


@pytest.fixture
def place(tmp_path):
    """Three runs, and a folder that is none."""
    for name, best in (("red-1", 3.0), ("red-2", 9.0), ("blue", 5.0)):
        a_run(tmp_path, name, point(10, best))
    (tmp_path / "other").mkdir()
    return tmp_path


def names(paths):
    return [path.name for path in paths]


def test_folder_has_its_runs(place):
    """Other folders beside them are none."""
    assert names(folders(place, [])) == ["blue", "red-1", "red-2"]


def test_names_and_patterns_choose(place):
    """In the order given, each once."""
    assert names(folders(place, ["red-2", "red-*", "blue"])) == ["red-2", "red-1", "blue"]


def test_runs_are_named_by_their_folders(place):
    """As a shell completes them."""
    chosen = [str(place / "red-1"), "blue"]
    assert names(folders(place / "red-2", chosen)) == ["red-2", "red-1", "blue"]


def test_unknown_name_is_refused_with_the_nearest(place):
    """A pattern without a match is refused too."""
    with pytest.raises(ConfigurationError, match=r"has no run red1\. Did you mean red-1\?"):
        folders(place, ["red1"])
    with pytest.raises(ConfigurationError, match="has no run green"):
        folders(place, ["green*"])


def test_missing_folder_is_named(tmp_path):
    """Before the first run there is no folder runs."""
    with pytest.raises(ConfigurationError, match=r"there is no folder .*nowhere"):
        folders(tmp_path / "nowhere", [])


def test_order():
    """By age the newest is last, and by evaluation the best is first, an unknown one last."""

    def run(name, age_s, best):
        return Summary(name, name, RunState.CUT, age_s=age_s, best=best)

    runs = [run("b", 5.0, None), run("a", 90.0, 1.0), run("c", 50.0, 2.0)]
    orders = {sort: "".join(each.name for each in ordered(runs, sort)) for sort in ORDERS}
    assert orders == ORDERS


ORDERS = {"age": "acb", "best": "cab", "name": "abc"}


def test_named_runs_stay_in_their_order(place):
    """A reader compares the first with the second."""
    assert [run.name for run in summaries(place, ["red-2", "blue"], "age")] == ["red-2", "blue"]
    assert [run.name for run in summaries(place, ["blue", "red-2"], "best")] == ["red-2", "blue"]


def test_runs_of_a_team_have_its_name_in_front(place):
    """They are listed with all others, or alone with the team's folder, and named as they are."""
    (place / "hunt").mkdir()
    (place / "hunt" / "team.toml").touch()
    for policy in ("red", "blue"):
        a_run(place / "hunt", policy, point(10, 4.0))
    listed = [run.name for run in summaries(place, [], "name")]
    assert listed == ["blue", "hunt/blue", "hunt/red", "red-1", "red-2"]
    assert [run.name for run in summaries(place / "hunt", [], "name")] == ["hunt/blue", "hunt/red"]
    assert names(folders(place, ["hunt/*"])) == ["blue", "red"]
    assert names(folders(place, ["hunt/red"])) == ["red"]
