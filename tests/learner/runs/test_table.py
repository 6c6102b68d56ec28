"""Runs as text and as plain data."""

import json

from farflung.learner.runs.reading import RunState, Summary
from farflung.learner.runs.table import comparison, differences, documents, listing

ONE = Summary(
    "one",
    "runs/one",
    RunState.FINISHED,
    "solved: evaluation >= 475",
    "CartPole-v1",
    "dqn",
    steps=8256,
    best=492.45,
    last=488.0,
    age_s=200.0,
    versions={"torch": "2.13.0"},
    settings={"name": "one", "seed": 0, "dqn.hidden": [64, 64], "dqn.gamma": 0.99},
)
TWO = Summary(
    "the-second",
    "runs/the-second",
    RunState.RUNNING,
    versions={"torch": "2.14.0"},
    settings={"name": "the-second", "seed": 0, "dqn.hidden": [32], "stack": 4, "dqn.gamma": 0.99},
)


def test_listing_has_a_line_for_each_run():
    """Unknown figures are dashes."""
    assert listing([ONE, TWO]).splitlines() == [
        "run         state     env          algorithm  steps   best   last         age  ended",
        "one         finished  CartPole-v1  dqn        8,256  492.4  488.0  3 min 20 s"
        "  solved: evaluation >= 475",
        "the-second  running   -            -              -      -      -           -",
    ]


def test_differences_are_settings_and_versions_that_differ():
    """A setting that only one of them has differs; the name does not count."""
    assert differences([ONE, TWO]) == {
        "dqn.hidden": ([64, 64], [32]),
        "torch (version)": ("2.13.0", "2.14.0"),
        "stack": (None, 4),
    }
    assert differences([ONE]) == {}


def test_true_is_another_setting_than_one():
    """Though they are equal in Python, as are 1 and 1.0 rightly."""
    made = [Summary("a", "a", RunState.CUT, settings={"x": value}) for value in (True, 1)]
    assert differences(made) == {"x": (True, 1)}


def test_comparison_is_side_by_side():
    """A column for each run."""
    assert comparison([ONE, TWO]).splitlines() == [
        "run              one       the-second",
        "state            finished  running",
        "steps            8,256     -",
        "best             492.4     -",
        "last             488.0     -",
        "dqn.hidden       [64, 64]  [32]",
        "torch (version)  2.13.0    2.14.0",
        "stack            -         4",
    ]


def test_comparison_of_many_runs_has_a_row_for_each():
    """It is narrower."""
    many = [Summary(f"run-{seed}", "", RunState.CUT, settings={"seed": seed}) for seed in range(9)]
    lines = comparison(many).splitlines()
    assert lines[0].split() == ["run", "state", "steps", "best", "last", "seed"]
    assert lines[9].split() == ["run-8", "cut", "short", "-", "-", "-", "8"]


def test_equal_settings_are_said_to_be_equal():
    """An empty table would leave a reader in doubt."""
    assert comparison([ONE, ONE]).endswith("no setting differs\n")


def test_documents_are_strict_json():
    """With all settings."""
    [one] = documents([ONE])
    assert json.loads(json.dumps(one, allow_nan=False)) == one
    assert one["settings"]["dqn.hidden"] == [64, 64]
