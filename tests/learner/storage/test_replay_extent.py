"""The part of the journal that the replay is made of."""

from types import SimpleNamespace

from farflung.learner.storage.journal.record import BEGINNING, Position
from farflung.learner.storage.manifest import (
    POSITION,
    REPLAY_FROM,
    REPLAY_HASH,
    REPLAY_ROWS,
    TOTALS,
)
from farflung.learner.storage.replay_extent import ReplayExtent, journal_facts


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


def test_rows_of_a_round_are_needed_until_all_of_it_is_old():
    """A round of 20 rows enters in another order than the journal's, and begins two segments.

    Without rounds the first segment could go once 10 of its rows are old.
    """
    apart, together = ReplayExtent(), ReplayExtent()
    for extent, last in ((apart, 0), (together, 20)):
        extent.inserted(10, Position(1, 100), last)
        extent.inserted(10, Position(2, 100), last)
        extent.inserted(10, Position(3, 100), last and 30)
    assert [apart.oldest_segment(size) for size in (20, 11)] == [2, 2]
    assert [together.oldest_segment(size) for size in (20, 11)] == [1, 1]
    assert together.oldest_segment(10) == 3


def test_evaluations_make_no_difference_wherever_they_enter():
    """One begins a segment: it enters before the round that follows, or together with it.

    That depends on the moment at which it comes, and a resumed learner has them enter together.
    """
    apart, together = ReplayExtent(), ReplayExtent()
    for extent, last in ((apart, 0), (together, 20)):
        extent.inserted(10, Position(1, 100), 10)
        extent.inserted(0, Position(2, 100), last)
        extent.inserted(5, Position(2, 200), 20)
        extent.inserted(5, Position(3, 100), 20)
    assert apart.digest(10) == together.digest(10)
    assert apart.oldest_segment(10) == together.oldest_segment(10) == 2


def test_empty_extent_is_at_the_beginning():
    """An extent without rows needs no segment."""
    extent = ReplayExtent()
    assert (extent.position, extent.oldest_segment(0)) == (BEGINNING, 0)


def digest(*parcels, size=20):
    """Return the hash after parcels of 10 rows, each given as its segment and its end's digest."""
    extent = ReplayExtent()
    for segment, chained in parcels:
        extent.inserted(10, Position(segment, 100, chained))
    return extent.digest(size)


def test_digest_depends_on_parcels_their_order_and_the_replays_size():
    """The digest covers only the replay: parcels before its first segment do not change it."""
    one = digest((1, 11), (2, 21), (2, 22))
    assert one == digest((2, 21), (2, 22))
    assert one != digest((1, 11), (2, 21), (2, 23))
    assert one != digest((1, 11), (2, 21), (3, 22))
    assert one != digest((1, 11), (2, 21), (2, 22), size=10)


def test_journal_facts_name_position_replay_and_totals():
    """A checkpoint holds these facts about the journal."""
    extent, journal = ReplayExtent(), SimpleNamespace(beginning=(6, b"totals"))
    extent.inserted(10, Position(5, 640))
    assert journal_facts(journal, extent, 10) == {
        POSITION: [5, 640],
        REPLAY_FROM: 5,
        REPLAY_ROWS: 10,
        REPLAY_HASH: extent.digest(10),
        TOTALS: [6, b"totals"],
    }
