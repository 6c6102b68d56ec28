"""The space of a sweep: ranges and choices, and mistakes in them."""

import tomllib

import pytest

from farflung.common.process.errors import UsageError
from farflung.learner.sweeps.space import Choices, Range, parameters


def space(text):
    return parameters("[space] of x.toml", tomllib.loads(text))


def test_ranges_and_choices():
    """Whole ends make whole numbers; sections are joined by a dot."""
    found = space(
        """
        horizon = { low = 8, high = 64, step = 8 }
        capacity = { low = 100, high = 1000, log = true }
        replay-ratio = [8, 16.5]
        "dqn.gamma" = { low = 0.9, high = 1 }
        [dqn]
        learning-rate = { low = 1e-5, high = 1e-2, log = true }
        hidden = { choices = [[64, 64], [128]] }
        double = [true, false]
        """
    )
    assert found == {
        "horizon": Range(8, 64, step=8),
        "capacity": Range(100, 1000, log=True),
        "replay-ratio": Choices((8, 16.5)),
        "dqn.gamma": Range(0.9, 1),
        "dqn.learning-rate": Range(1e-5, 1e-2, log=True),
        "dqn.hidden": Choices(([64, 64], [128])),
        "dqn.double": Choices((True, False)),
    }
    assert [each.whole for each in found.values() if isinstance(each, Range)] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x = 3", r"x in \[space\] of x.toml: write .* a fixed value belongs into \[learner\]"),
        ("x = {low = 1}", "a low and a high end"),
        ("x = {low = 2, high = 1}", "low is not below high"),
        ("x = {low = 0, high = 1, log = true}", "begins above 0"),
        ("x = {low = 1, high = 9, log = true, step = 2}", "has no step"),
        ("x = {low = 1, high = 9, step = 0}", "step must be above 0"),
        ("x = {low = 1, high = 9, step = 0.5}", "whole step"),
        ("x = {low = nan, high = 9}", "low is no number"),
        ("x = {low = true, high = 9}", "low is no number"),
        ("x = {low = 1, high = 9, setp = 1}", r"unknown word setp .* Did you mean step\?"),
        ("x = {low = 1, high = 9, log = 1}", "log is true or false"),
        ("x = []", "there are no choices"),
        ("x = {choices = 3}", "there are no choices"),
        ("x = {choices = [1], log = true}", "choices stand alone"),
        ("[dqn]\nx = {low = 1}", r"dqn.x in .*: a range has a low and a high end"),
    ],
)
def test_mistake_is_named(line, said):
    """With its place, in one sentence."""
    with pytest.raises(UsageError, match=said):
        space(line)
