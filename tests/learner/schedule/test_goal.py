import pytest

from farflung.common.process.errors import UsageError
from farflung.learner.schedule.goal import parse


@pytest.mark.parametrize(
    ("text", "figures", "met"),
    [
        ("evaluation >= 475", {"evaluation": 475.0}, True),
        ("evaluation >= 475", {"evaluation": 474.9}, False),
        ("evaluation >= 475", {"evaluation": None}, False),
        ("evaluation >= 475", {}, False),
        ("steps > 1e4", {"steps": 10_000}, False),
        ("steps > 1e4", {"steps": 10_001}, True),
        ("return<-.5", {"return": -0.6}, True),
        ("updates == 3", {"updates": 3}, True),
        ("seconds <= 2.", {"seconds": 2.0}, True),
        ("evaluation >= 475 and steps > 10", {"evaluation": 500, "steps": 10}, False),
        ("evaluation >= 475 and steps > 10", {"evaluation": 500, "steps": 11}, True),
        (
            "steps > 10 and updates > 5 or episodes > 2",
            {"steps": 11, "updates": 0, "episodes": 3},
            True,
        ),
        (
            "episodes > 2 or steps > 10 and updates > 5",
            {"steps": 11, "updates": 0, "episodes": 0},
            False,
        ),
        ("", {"steps": 1e9}, False),
        ("  ", {"steps": 1e9}, False),
    ],
)
def test_condition_is_met_by_metrics(
    text: str, figures: dict[str, float | None], met: bool
) -> None:
    """`and` binds tighter than `or`.

    A metric that is not known yet meets nothing, and an empty condition is never met.
    """
    assert parse(text).met(figures) is met


def test_condition_names_its_metrics() -> None:
    """The settings require evaluations if a condition depends on them."""
    assert parse("evaluation >= 475 and steps > 10 or steps > 100").metrics == {
        "evaluation",
        "steps",
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("evalution >= 475", r"unknown metric 'evalution' .* Did you mean evaluation\?"),
        ("zebra > 1", r"unknown metric 'zebra' \(known: evaluation, return"),
        ("evaluation", "'evaluation' is not a comparison"),
        ("steps > ten", "is not a comparison"),
        ("steps => 10", "is not a comparison"),
        ("steps > 10 and", "'' is not a comparison"),
        ("(steps > 10)", "is not a comparison"),
        ("steps > 10; import os", "is not a comparison"),
        ("__import__('os') > 1", "is not a comparison"),
    ],
)
def test_malformed_condition_is_refused(text: str, says: str) -> None:
    """The sentence names the part that cannot be read; nothing is executed."""
    with pytest.raises(UsageError, match=says):
        parse(text)
