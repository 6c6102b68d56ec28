"""Rates, spreads, histories and intervals against numbers worked by hand."""

import pickle

import numpy as np
import pytest

from farflung.common.data.statistics import (
    History,
    Interval,
    Rate,
    Shares,
    Spread,
    confidence,
    share,
    t_975,
)


def test_rate_is_unknown_before_two_samples() -> None:
    """One moment says nothing about speed."""
    rate = Rate()
    assert rate.per_second is None
    rate.update(5, now=1.0)
    assert rate.per_second is None
    rate.update(6, now=1.0)
    assert rate.per_second is None


def test_rate_is_growth_over_time() -> None:
    """300 more in 2 seconds are 150 per second."""
    rate = Rate()
    rate.update(100, now=10.0)
    rate.update(400, now=12.0)
    assert rate.per_second == pytest.approx(150)


def test_rate_forgets_samples_older_than_its_window() -> None:
    """After ten quick seconds and ten idle ones, a window of five shows the idleness."""
    rate = Rate(window_s=5.0)
    for second in range(21):
        rate.update(min(second, 10) * 100, now=float(second))
    assert rate.per_second == 0


def test_rate_starts_over_when_its_counter_falls() -> None:
    """A restarted actor counts from zero: no negative rate."""
    rate = Rate()
    rate.update(1000, now=0.0)
    rate.update(2000, now=1.0)
    rate.update(10, now=2.0)
    assert rate.per_second is None
    rate.update(30, now=3.0)
    assert rate.per_second == pytest.approx(20)


def test_rate_keeps_a_bounded_number_of_samples() -> None:
    """Ten thousand updates in ten seconds leave a small object and the right rate."""
    rate = Rate(window_s=10.0, points=32)
    for tick in range(10_000):
        rate.update(tick, now=tick / 1000)
    assert len(pickle.dumps(rate)) < 2_000
    assert rate.per_second == pytest.approx(1000, rel=0.01)


def test_percentiles_are_by_nearest_rank() -> None:
    """Of 1 to 20, ten values do not exceed 10 and nineteen do not exceed 19."""
    spread = Spread()
    spread.extend(range(20, 0, -1))
    assert (spread.p50, spread.p95, spread.mean) == (10, 19, 10.5)
    assert (spread.percentile(0), spread.percentile(100)) == (1, 20)


def test_spread_without_values_is_unknown() -> None:
    """None, not zero."""
    spread = Spread()
    assert (spread.p50, spread.p95, spread.mean, len(spread)) == (None, None, None, 0)


def test_spread_covers_the_latest_values() -> None:
    """The oldest value goes when there are too many."""
    spread = Spread(size=3)
    for value in (100.0, 1.0, 2.0, 3.0):
        spread.add(value)
    assert (len(spread), spread.mean, spread.p95) == (3, 2.0, 3.0)


def test_full_history_halves_its_points() -> None:
    """1 2 3 4 in four points; a fifth makes 1.5, 3.5 and the fifth; the sixth completes a pair."""
    history = History(size=4)
    for value in (1.0, 2.0, 3.0, 4.0):
        history.add(value)
    assert history.points == (1.0, 2.0, 3.0, 4.0)
    history.add(5.0)
    assert history.points == (1.5, 3.5, 5.0)
    history.add(7.0)
    assert history.points == (1.5, 3.5, 6.0)


def test_history_covers_the_whole_series_in_bounded_space() -> None:
    """Of 0 to 9999 there are at most 40 points, rising from near the first to the last."""
    history = History()
    for value in range(10_000):
        history.add(float(value))
    points = history.points
    assert 20 <= len(points) <= 40
    assert list(points) == sorted(points)
    assert points[0] < 500
    assert points[-1] > 9500


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (19, 2.093), (99, 1.984), (10**6, 1.960)],
)
def test_percentile_of_student_is_that_of_the_tables(freedom: int, expected: float) -> None:
    """To three digits."""
    assert t_975(freedom) == pytest.approx(expected, rel=2e-3)


def test_interval_of_a_mean_is_that_of_students_t() -> None:
    """1, 2, 3: the deviation is 1, so half the width is 4.303 / sqrt(3)."""
    found = confidence([1.0, 2.0, 3.0])
    assert found == pytest.approx((2.0, 2.484), rel=1e-3)
    assert str(found) == "2.0 ± 2.5"
    assert confidence([7.0]) == (7.0, float("inf"))
    assert confidence([500.0] * 20) == (500.0, 0.0)


@pytest.mark.parametrize(
    ("mean", "half", "said"),
    [
        (486.25, 23.04, "486.2 ± 23.0"),
        (0.6234, 0.0931, "0.623 ± 0.093"),
        (500.0, 0.0, "500.0 ± 0.0"),
        (7.0, float("inf"), "7.0 (one value)"),
        (1.0, 1e-9, "1.000000 ± 0.000000"),
    ],
)
def test_interval_shows_two_digits_of_its_width(mean: float, half: float, said: str) -> None:
    """A share of successes needs more decimals than a return of hundreds."""
    assert str(Interval(mean, half)) == said


def test_intervals_overlap_if_one_mean_can_be_in_both() -> None:
    """10 ± 2 and 13 ± 1 touch at 12; 10 ± 2 and 13 ± 0.5 do not."""
    assert Interval(10.0, 2.0).overlaps(Interval(13.0, 1.0))
    assert not Interval(10.0, 2.0).overlaps(Interval(13.0, 0.5))


def test_intervals_hold_the_true_mean_in_95_of_100_cases() -> None:
    """Of 2,000 samples of ten normal numbers: 95 % within three deviations of a proportion."""
    rng = np.random.default_rng(1)
    samples = [confidence(rng.standard_normal(10).tolist()) for _ in range(2000)]
    share = sum(abs(mean) <= half for mean, half in samples) / 2000
    assert abs(share - 0.95) < 3 * (0.95 * 0.05 / 2000) ** 0.5


@pytest.mark.parametrize(
    ("part", "count", "expected"),
    [
        (8, 10, (0.8, 0.4902, 0.9433)),  # 0.7167 ± 0.2266
        (0, 10, (0.0, 0.0, 0.2775)),  # 3.8415 / 13.8415
        (10, 10, (1.0, 0.7225, 1.0)),
        (1, 1, (1.0, 0.2065, 1.0)),  # 1 / 4.8415
    ],
)
def test_interval_of_a_share_is_wilsons(
    part: int, count: int, expected: tuple[float, float, float]
) -> None:
    """Worked by hand; nothing and all have a width too."""
    assert share(part, count) == pytest.approx(expected, abs=1e-4)


def test_share_shows_its_interval() -> None:
    """With three decimals."""
    assert str(share(8, 10)) == "0.800 (0.490 to 0.943)"


def test_intervals_of_shares_hold_the_true_one_in_95_of_100_cases() -> None:
    """Of 5,000 samples of 100 cases each, at a share of 0.9: 93 to 97 %."""
    wins = np.random.default_rng(2).binomial(100, 0.9, 5000)
    held = sum(low <= 0.9 <= high for _, low, high in (share(int(won), 100) for won in wins))
    assert 0.93 < held / 5000 < 0.97


def test_shares_are_those_of_the_growth_in_the_last_seconds() -> None:
    """From 0 to 10 s all was of `a`; of the 4 s after it 3 are of `b`."""
    shares = Shares()
    assert shares.parts == {}
    shares.update({"a": 5.0, "b": 0.0}, 0.0)
    assert shares.parts == {}
    shares.update({"a": 15.0, "b": 0.0}, 10.0)
    assert shares.parts == {"a": 1.0, "b": 0.0}
    shares.update({"a": 16.0, "b": 3.0}, 14.0)
    assert shares.parts == pytest.approx({"a": 11 / 14, "b": 3 / 14})
    shares.update({"a": 16.0, "b": 9.0}, 20.0)  # what was before 10 s is forgotten
    assert shares.parts == pytest.approx({"a": 0.1, "b": 0.9})


def test_counter_that_begins_again_has_no_negative_share() -> None:
    """As after a restart of its process."""
    shares = Shares()
    for now, total in enumerate((5.0, 6.0, 0.0, 1.0)):
        shares.update({"a": total, "b": float(now)}, float(now))
    assert shares.parts == pytest.approx({"a": 0.5, "b": 0.5})
