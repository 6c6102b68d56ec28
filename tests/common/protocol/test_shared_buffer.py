"""The buffer that peers share, by numbers worked by hand."""

import pytest

from farflung.common.protocol.shared_buffer import Load, SharedBuffer


def filled(buffer: SharedBuffer, *peers: str, size: int = 1, rows: int = 1) -> dict[str, int]:
    """Let peers fill the buffer in turns until none has room; return their messages."""
    counts = dict.fromkeys(peers, 0)
    while open_ := [peer for peer in peers if buffer.has_room(peer, size)]:
        for peer in open_:
            buffer.add(Load(peer, size, rows))
            counts[peer] += 1
    return counts


@pytest.mark.parametrize(
    ("size", "rows", "limits"), [(1, 0, (1200, 1)), (0, 1, (1, 1200))], ids=["bytes", "rows"]
)
def test_a_greedy_peer_leaves_room_for_others(size, rows, limits):
    """One takes half of 1,200. A second one has a third of the rest: as much as is free then."""
    most_size, most_rows = limits
    buffer = SharedBuffer(most_rows, most_size)
    assert filled(buffer, "a", size=size, rows=rows) == {"a": 600}
    assert filled(buffer, "b", size=size, rows=rows) == {"b": 300}
    assert filled(buffer, "c", size=size, rows=rows) == {"c": 150}


def test_peers_that_come_together_have_the_same():
    """Three at once have a quarter each."""
    assert filled(SharedBuffer(1200, 1200), "a", "b", "c") == {"a": 300, "b": 300, "c": 300}


def test_what_left_makes_room_again():
    """For the next look, whichever thread released it."""
    buffer = SharedBuffer(1 << 40, 10)
    buffer.add(Load("a", 5, 1))
    assert not buffer.has_room("a", 1)
    buffer.release(Load("a", 5, 1))
    assert buffer.has_room("a", 10)
    assert not buffer.has_room("a", 11)


@pytest.mark.parametrize(("size", "rows"), [(1, 0), (0, 1), (1, 1)], ids=["bytes", "rows", "both"])
def test_a_peer_that_brings_the_spare_rows_is_never_refused(size, rows):
    """Of 1,200 rows 600 are spare, and for the next one half of the other 600."""
    buffer = SharedBuffer(1200, 1200)
    for peer, spare in (("a", 600), ("b", 300)):
        for left in range(spare, 0, -1):
            assert buffer.spare_rows(peer) == left
            assert buffer.has_room(peer, size)
            buffer.add(Load(peer, size, rows))
        assert buffer.spare_rows(peer) == 0
        assert not buffer.has_room(peer, size)
    buffer.release(Load("a", 600 * size, 600 * rows))
    assert buffer.spare_rows("b") == 300
