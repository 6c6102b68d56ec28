"""Numbers, durations and foreign text as people read them."""

import math

import pytest

from farflung.learner.observe.formatting import (
    compact,
    count,
    duration,
    figure,
    one_line,
    rate,
    size,
    sparkline,
    waiting,
)
from farflung.learner.observe.status import WaitingStatus


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (471.32, "471.3"),
        (7.9, "7.90"),
        (0.1284, "0.128"),
        (-87.26, "-87.3"),
        (12345.6, "12,346"),
        (2.1e-5, "2.1e-05"),
        (3e12, "3.0e+12"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
    ],
)
def test_a_figure_has_about_three_digits(value: float | None, text: str) -> None:
    """Enough to see a change, and of steady width."""
    assert figure(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0"), (0.52, "0.5"), (28.71, "28.7"), (18402.4, "18,402")],
)
def test_a_rate_is_whole_when_it_is_large(value: float | None, text: str) -> None:
    """The decimals of thousands are noise."""
    assert rate(value) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (950, "950"),
        (1000, "1k"),
        (62311, "62.3k"),
        (1_500_000, "1.5M"),
        (2 * 10**9, "2G"),
    ],
)
def test_a_size_is_compact(number: int, text: str) -> None:
    """Five characters do."""
    assert compact(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (950, "950 B"), (1500, "1.5 kB"), (412_300_000, "412 MB"), (1 << 40, "1100 GB")],
)
def test_bytes_have_their_unit(number: int, text: str) -> None:
    """Two or three digits, so that columns keep their width."""
    assert size(number) == text


def test_a_count_marks_its_thousands() -> None:
    """So that a million is seen at once."""
    assert count(1243904) == "1,243,904"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (41.0, "41 s"),
        (151.0, "2 min 31 s"),
        (11_520.0, "3 h 12 min"),
        (187_200.0, "2 d 4 h"),
        (math.inf, "-"),
    ],
)
def test_a_duration_has_two_units(seconds: float, text: str) -> None:
    """The smaller ones do not matter beside them."""
    assert duration(seconds) == text


def test_a_sparkline_spans_lowest_to_highest() -> None:
    """0 to 7 are the eight bars."""
    assert sparkline(range(8), 8) == "▁▂▃▄▅▆▇█"


def test_a_sparkline_averages_neighbours_where_it_is_narrow() -> None:
    """Eight values in four columns: pairs."""
    assert sparkline([0, 0, 7, 7, 0, 0, 7, 7], 4) == "▁█▁█"


def test_a_sparkline_of_odd_series() -> None:
    """A flat line is flat, a gap stays a gap, nothing is nothing, and no room is no error."""
    assert sparkline([5, 5, 5], 10) == "▄▄▄"
    assert sparkline([0, math.nan, 7], 10) == "▁ █"
    assert sparkline([], 10) == ""
    assert sparkline([math.nan], 10) == ""
    assert len(sparkline([1, 2, 3], 0)) == 1


def test_a_traceback_becomes_one_line() -> None:
    """Its subject, and the error at its end."""
    text = (
        "cpu01: step\nTraceback (most recent call last):\n  File x, line 3\nValueError: too far\n"
    )
    assert one_line(text) == "cpu01: step … ValueError: too far"
    assert one_line("plain") == "plain"
    assert one_line("\n \n") == ""


@pytest.mark.parametrize(
    ("wait", "sentence"),
    [
        (WaitingStatus(), ""),
        (WaitingStatus("warm-up", 1000, 1.0), "updates wait for 1,000 more rows to start with"),
        (WaitingStatus("rows", 3, 1.0), "updates wait for 3 more rows"),
        (WaitingStatus("rows", 3, 0.65), "updates wait for rows (65 % of the time)"),
        (WaitingStatus("updates", 2, 1.0), "collection waits for updates"),
        (WaitingStatus("actors", 0, 1.0), "all else waits for actors"),
        (
            WaitingStatus("actors", 2, 1.0),
            "all else waits for actors; 2 start on this machine",
        ),
        (
            WaitingStatus("evaluation", 7, 1.0),
            "all else waits for an evaluation, 7 of its episodes to go",
        ),
        (WaitingStatus("moon phase", 2, 0.5), "moon phase (50 % of the time)"),
    ],
)
def test_waiting_names_the_side_and_how_much_it_waits_for(
    wait: WaitingStatus, sentence: str
) -> None:
    """A cause of a newer release is shown as its word."""
    assert waiting(wait) == sentence
