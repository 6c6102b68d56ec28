"""The part of the journal that the replay is made of."""

from farflung.learner.storage.journal.record import BEGINNING, Position
from farflung.learner.storage.replay_extent import ReplayExtent


def test_oldest_segment_moves_when_the_replay_has_dropped_its_rows():
    """Three segments of ten rows: a replay of 25 needs all, one of 15 two, one of 10 the last."""
    extent = ReplayExtent()
    for number in (1, 2, 3):
        extent.inserted(6, Position(number, 100))
        extent.inserted(4, Position(number, 200))
    assert extent.position == Position(3, 200)
    assert extent.oldest_segment(25) == 1
    assert extent.oldest_segment(15) == 2
    assert extent.oldest_segment(10) == 3


def test_empty_extent_is_at_the_beginning():
    """It needs no segment."""
    extent = ReplayExtent()
    assert (extent.position, extent.oldest_segment(0)) == (BEGINNING, 0)


def digest(*parcels, size=20):
    """The hash after parcels of 10 rows, each given as its segment and the digest at its end."""
    extent = ReplayExtent()
    for segment, chained in parcels:
        extent.inserted(10, Position(segment, 100, chained))
    return extent.digest(size)


def test_digest_tells_other_parcels_another_order_and_another_size():
    """It covers the replay and nothing before: a later start with the same rows has the same."""
    one = digest((1, 11), (2, 21), (2, 22))
    assert one == digest((2, 21), (2, 22))
    assert one != digest((1, 11), (2, 21), (2, 23))
    assert one != digest((1, 11), (2, 21), (3, 22))
    assert one != digest((1, 11), (2, 21), (2, 22), size=10)
