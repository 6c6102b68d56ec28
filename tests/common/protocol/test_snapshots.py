"""The queue of snapshots."""

import pytest

from farflung.common.protocol.snapshots import WAITING, Snapshots


def topic(actor: str, nonce: int = 1) -> str:
    """Return a private topic."""
    return f"z/default/{actor}/7/{nonce}"


def test_snapshots_are_sent_in_order_two_at_a_time() -> None:
    """The third waits until one is confirmed."""
    snapshots = Snapshots()
    for actor in "abc":
        assert snapshots.ask(topic(actor))
    assert (snapshots.next(0.0), snapshots.next(0.0), snapshots.next(0.0)) == (
        topic("a"),
        topic("b"),
        None,
    )
    snapshots.confirm(topic("b"))
    assert (snapshots.next(0.1), snapshots.next(0.1)) == (topic("c"), None)


@pytest.mark.parametrize(
    ("message_bytes", "at_once"), [(1000, 32), (1 << 20, 32), (10 << 20, 3), (100 << 20, 2)]
)
def test_small_snapshots_are_sent_to_many_at_once(message_bytes: int, at_once: int) -> None:
    """32 MiB of them, but at most 32 and at least two."""
    snapshots = Snapshots()
    snapshots.fit(message_bytes)
    for number in range(40):
        assert snapshots.ask(f"z/default/box-{number}/1/1")
    assert sum(snapshots.next(0.0) is not None for _ in range(40)) == at_once


def test_unconfirmed_snapshot_counts_for_two_seconds() -> None:
    """Then its asker is on its own: it asks again."""
    snapshots = Snapshots()
    for actor in "abc":
        snapshots.ask(topic(actor))
    snapshots.next(0.0)
    snapshots.next(1.0)
    assert (snapshots.next(1.9), snapshots.next(2.0), snapshots.next(2.0)) == (
        None,
        topic("c"),
        None,
    )


def test_snapshots_hold_one_request_of_an_actor() -> None:
    """A fresh nonce replaces the one before; a subscription that ends leaves the queue."""
    snapshots = Snapshots()
    snapshots.ask(topic("a"))
    snapshots.ask(topic("b"))
    snapshots.ask(topic("a", 2))
    snapshots.confirm(topic("a", 1))
    snapshots.confirm(topic("b"))
    assert (snapshots.next(0.0), snapshots.next(0.0)) == (topic("a", 2), None)


def test_snapshots_refuse_a_request_when_the_queue_is_full() -> None:
    """A refused actor asks again by itself; a waiting one may still change its nonce."""
    snapshots = Snapshots()
    assert all(snapshots.ask(topic(str(number))) for number in range(WAITING))
    assert not snapshots.ask(topic("more"))
    assert snapshots.ask(topic("5", 2))
