"""What the replay is made of, by segment."""

from learner.journal.coverage import Coverage
from learner.journal.folder import START, Position


def test_the_oldest_segment_moves_when_the_replay_has_forgotten_its_rows():
    """Ten rows in each of three segments; a replay of 15 needs the second and third, one of 25 all three, one of 10 the last."""
    coverage = Coverage()
    for number in (1, 2, 3):
        coverage.inserted(6, Position(number, 100))
        coverage.inserted(4, Position(number, 200))
    assert coverage.position == Position(3, 200)
    assert coverage.oldest_segment(25) == 1
    assert coverage.oldest_segment(15) == 2
    assert coverage.oldest_segment(10) == 3


def test_nothing_inserted_needs_nothing():
    """Before the first parcel the place is before everything."""
    coverage = Coverage()
    assert (coverage.position, coverage.oldest_segment(0)) == (START, 0)
