import pytest

from farflung.common.process.errors import UsageError
from farflung.learner.until import parse


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
def test_a_condition_against_figures(
    text: str, figures: dict[str, float | None], met: bool
) -> None:
    """`and` binds tighter than `or`; a figure that is not known yet meets nothing; no condition is never met."""
    assert parse(text).met(figures) is met


def test_a_condition_names_its_figures() -> None:
    """So that an evaluation can be asked for where it is needed."""
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
def test_what_is_not_a_condition_is_refused(text: str, says: str) -> None:
    """One sentence names the part that cannot be read; nothing is ever run."""
    with pytest.raises(UsageError, match=says):
        parse(text)
