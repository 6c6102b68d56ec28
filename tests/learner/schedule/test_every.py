"""Intervals in episodes, updates or steps."""

import pytest

from farflung.common.process.errors import UsageError
from farflung.learner.schedule.every import Every, parse


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("500 updates", 500, "updates"),
        (" 1e4  Steps ", 10_000, "steps"),
        ("2.5e3 steps", 2500, "steps"),
        ("1 episodes", 1, "episodes"),
    ],
)
def test_interval_is_read(text, number, unit):
    """A whole number and a unit."""
    assert parse("--archive-every", text) == Every(number, unit)


def test_empty_text_is_no_interval():
    """Never."""
    assert parse("--archive-every", " ") is None


@pytest.mark.parametrize(
    "text",
    ["500", "updates", "0 updates", "1.5 steps", "-1 steps", "5 hours", "1e999 steps", "٣ x"],
)
def test_other_texts_are_refused_with_an_example(text):
    """The flag is named."""
    with pytest.raises(UsageError, match=r"--archive-every .*'500 updates'"):
        parse("--archive-every", text)


def test_due_at_each_multiple_once():
    """Every 100 updates: at 100 and 200, also where the look comes late."""
    every, before = Every(100, "updates"), {}
    due = []
    for updates in (0, 99, 100, 130, 199, 250, 260, 300):
        counts = {"updates": updates}
        if every.due(counts, before):
            due.append(updates)
            before = counts
    assert due == [100, 250, 300]
