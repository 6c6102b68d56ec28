"""What the replay is made of, by segment."""

from farflung.learner.storage.journal.folder import START, Position
from farflung.learner.storage.replay_extent import ReplayExtent


def test_the_oldest_segment_moves_when_the_replay_has_forgotten_its_rows():
    """Ten rows in each of three segments; a replay of 15 needs the second and third, one of 25 all three, one of 10 the last."""
    coverage = ReplayExtent()
    for number in (1, 2, 3):
        coverage.inserted(6, Position(number, 100))
        coverage.inserted(4, Position(number, 200))
    assert coverage.position == Position(3, 200)
    assert coverage.oldest_segment(25) == 1
    assert coverage.oldest_segment(15) == 2
    assert coverage.oldest_segment(10) == 3


def test_nothing_inserted_needs_nothing():
    """Before the first parcel the place is before everything."""
    coverage = ReplayExtent()
    assert (coverage.position, coverage.oldest_segment(0)) == (START, 0)


def digest(*parcels, size=20):
    """The hash after parcels of 10 rows, each given as its segment and the digest of what is before its end there."""
    coverage = ReplayExtent()
    for segment, chained in parcels:
        coverage.inserted(10, Position(segment, 100, chained))
    return coverage.digest(size)


def test_the_hash_tells_other_parcels_another_order_and_another_size():
    """It is of what the replay holds, and of nothing before: a life that began later, with the same rows, has the same."""
    one = digest((1, 11), (2, 21), (2, 22))
    assert one == digest((2, 21), (2, 22))
    assert one != digest((1, 11), (2, 21), (2, 23))
    assert one != digest((1, 11), (2, 21), (3, 22))
    assert one != digest((1, 11), (2, 21), (2, 22), size=10)
