"""Clocks of other processes, by numbers worked by hand."""

import pytest

from farflung.learner.observe.alignment import ROUNDED_US, Clock, RoundTrip, align


def test_one_round_trip_bounds_a_clock_by_half_of_its_length():
    """Asked at 100, answered at 5_130 of theirs, received at 140: 4_990 to 5_030 ahead."""
    assert align([RoundTrip(100, 5_130, 140)]) == Clock(5_010.0, 20.0 + ROUNDED_US)


def test_clock_behind_ours_is_negative():
    """Asked at 1_000, answered at 400, received at 1_100: 600 to 700 behind."""
    assert align([RoundTrip(1_000, 400, 1_100)]) == Clock(-650.0, 50.0 + ROUNDED_US)


def test_shortest_round_trip_counts_among_longer_ones():
    """The long ones say nothing that it does not."""
    trips = [
        RoundTrip(0, 5_100, 200),
        RoundTrip(1_000, 6_004, 1_008),
        RoundTrip(2_000, 7_400, 3_000),
    ]
    assert align(trips) == Clock(5_000.0, 4.0 + ROUNDED_US)


def test_slow_ways_in_opposite_directions_bound_it_together():
    """A quick way there (10) and a quick way back (6) of two long round trips: 4_994 to 5_010.

    Each round trip alone leaves an error of 505 and 503.
    """
    trips = [RoundTrip(0, 5_010, 1_010), RoundTrip(2_000, 8_000, 3_006)]
    assert align(trips) == Clock(5_002.0, 8.0 + ROUNDED_US)


def test_true_offset_is_within_the_error_whatever_the_delays():
    """Delays of every length, longer in one direction than in the other."""
    ahead = 5_000_000
    trips = [
        RoundTrip(asked, asked + there + ahead, asked + there + back)
        for asked, there, back in ((0, 900, 30), (10_000, 70, 4_000), (20_000, 500, 500))
    ]
    clock = align(trips)
    assert clock == Clock(ahead + 20.0, 50.0 + ROUNDED_US)
    assert abs(clock.ahead_us - ahead) <= clock.error_us


def test_clock_that_was_set_counts_by_its_shortest_round_trip():
    """Two round trips that contradict each other."""
    trips = [RoundTrip(0, 5_010, 20), RoundTrip(1_000, 9_005, 1_010)]
    assert align(trips) == Clock(8_000.0, 5.0 + ROUNDED_US)


def test_no_round_trip_is_no_clock():
    """A process is known by its first message, which is a round trip."""
    with pytest.raises(ValueError, match="arg"):
        align([])
