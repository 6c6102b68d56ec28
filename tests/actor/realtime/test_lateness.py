"""Percentiles of delays in bounded memory, with numbers worked by hand."""

import pytest

from farflung.actor.realtime.lateness import EDGES, Lateness


def of(*delays: float) -> Lateness:
    """Return the distribution of these delays."""
    lateness = Lateness()
    for delay in delays:
        lateness.add(delay)
    return lateness


def test_without_delays_all_figures_are_zero() -> None:
    """An actor reports before its first step."""
    assert (of().p50_s, of().p99_s, of().worst_s, of().count) == (0.0, 0.0, 0.0, 0)


def test_single_delay_is_every_percentile() -> None:
    """The edge above it is not shown: nothing was later than the worst."""
    lateness = of(0.002)
    assert (lateness.p50_s, lateness.p99_s, lateness.worst_s) == (0.002, 0.002, 0.002)


def test_percentiles_are_by_nearest_rank_and_at_most_5_percent_high() -> None:
    """Of 1 to 100 ms the 50th is 50 ms and the 99th is 99 ms."""
    lateness = of(*(number / 1000 for number in range(1, 101)))
    assert 0.050 <= lateness.p50_s <= 0.050 * 1.05
    assert 0.099 <= lateness.p99_s <= 0.100
    assert lateness.worst_s == 0.100


def test_one_late_step_in_a_hundred_is_beyond_the_99th() -> None:
    """With two in a hundred it is one of them."""
    assert of(*[0.001] * 99, 1.0).p99_s <= 0.00105
    assert of(*[0.001] * 98, 1.0, 1.0).p99_s == 1.0


def test_an_edge_belongs_to_itself() -> None:
    """A delay of exactly one microsecond is not rounded up, nor is one of none."""
    assert of(0.0, 1e-6, 1.0).p50_s == pytest.approx(1e-6)
    assert of(1.05e-6, 1.05e-6, 1.0).p50_s == pytest.approx(1.05e-6)


def test_memory_is_bounded_and_the_worst_is_exact() -> None:
    """A delay beyond the last edge is kept as the worst."""
    lateness = of(*[5000.0] * 3)
    assert lateness.worst_s == 5000.0
    assert 1000.0 <= lateness.p50_s <= 1050.0
    assert EDGES < 500
