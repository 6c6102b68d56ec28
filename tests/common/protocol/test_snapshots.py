"""The queue of snapshots."""

import pytest

from farflung.common.protocol.snapshots import OF_ONE, WAITING, Snapshots


def topic(actor: str, nonce: int = 1) -> str:
    """Return a private topic."""
    return f"z/default/{actor}/7/{nonce}"


def test_snapshots_are_sent_in_order_two_at_a_time() -> None:
    """The third waits until one is confirmed."""
    snapshots = Snapshots()
    for actor in "abc":
        snapshots.ask(topic(actor))
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
        snapshots.ask(f"z/default/box-{number}/1/1")
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


def drained(snapshots: Snapshots, now: float = 0.0) -> list[str]:
    """All topics that are due now."""
    found = []
    while (due := snapshots.next(now)) is not None:
        found.append(due)
    return found


def test_each_connection_gets_its_turn() -> None:
    """One that asked a thousand times before does not keep another waiting for a single answer."""
    snapshots = Snapshots()
    for number in range(1000):
        snapshots.ask(topic(f"bad-{number}"), 1)
    snapshots.ask(topic("honest"), 2)
    assert snapshots.next(0.0) == topic("bad-0")
    assert snapshots.next(0.0) == topic("honest")


def test_a_connection_that_confirms_nothing_waits_alone() -> None:
    """Fifty of them that fill their pipes keep no honest one waiting, however long they stay."""
    snapshots = Snapshots()
    snapshots.fit(100 << 20)
    for second in range(20):
        for connection in range(1, 51):
            for number in range(5):
                snapshots.ask(topic(f"bad-{connection}-{number}"), connection)
        drained(snapshots, second)
        honest = topic(f"honest-{second}")
        snapshots.ask(honest, 99)
        assert snapshots.next(second) == honest
        snapshots.confirm(honest)


def test_an_answer_counts_against_its_own_pipe_only() -> None:
    """Two large ones for each connection; a confirmation makes room for the next."""
    snapshots = Snapshots()
    snapshots.fit(100 << 20)
    for connection in (1, 2):
        for number in range(3):
            snapshots.ask(topic(f"{connection}-{number}"), connection)
    assert drained(snapshots) == [topic(name) for name in ("1-0", "2-0", "1-1", "2-1")]
    snapshots.confirm(topic("2-0"))
    assert drained(snapshots) == [topic("2-2")]


def test_all_answers_of_a_broker_come_through_one_pipe() -> None:
    """Clients get theirs in turn, and two large ones in all are on the way."""
    snapshots = Snapshots(one_pipe=True)
    snapshots.fit(100 << 20)
    for number in range(3):
        snapshots.ask(topic(f"bad-{number}"), 1)
    snapshots.ask(topic("honest"), 2)
    assert drained(snapshots) == [topic("bad-0"), topic("honest")]
    snapshots.confirm(topic("honest"))
    assert drained(snapshots) == [topic("bad-1")]
    assert drained(snapshots, 2.0) == [topic("bad-2")]


def test_a_connection_has_a_bounded_number_of_questions() -> None:
    """A new one takes the place of its oldest, not of another connection's."""
    snapshots = Snapshots()
    snapshots.ask(topic("honest"), 2)
    for number in range(OF_ONE + 1):
        snapshots.ask(topic(f"bad-{number}"), 1)
    assert (snapshots.next(0.0), snapshots.next(0.0)) == (topic("honest"), topic("bad-1"))


def test_questions_are_bounded_in_all() -> None:
    """Beyond the bound, the connection with the most loses its oldest."""
    snapshots = Snapshots()
    for connection in range(1, 9):
        for number in range(WAITING // 8):
            snapshots.ask(topic(f"{connection}-{number}"), connection)
    snapshots.ask(topic("1-more"), 1)
    snapshots.ask(topic("honest"), 99)
    found = [snapshots.next(0.0) for _ in range(9)]
    assert topic("honest") in found
    assert topic("1-0") not in found


def test_a_question_that_is_asked_again_counts_once() -> None:
    """The same topic is answered again, and one confirmation is enough."""
    snapshots = Snapshots()
    for _ in range(5):
        snapshots.ask(topic("a"))
        assert snapshots.next(0.0) == topic("a")
    snapshots.confirm(topic("a"))
    for actor in "bc":
        snapshots.ask(topic(actor))
    assert drained(snapshots) == [topic("b"), topic("c")]


def test_what_ended_leaves_nothing() -> None:
    """Memory does not grow with connections that have come and gone."""
    snapshots = Snapshots()
    for connection in range(1, 200):
        for number in range(3):
            snapshots.ask(topic(f"{connection}-{number}"), connection)
        drained(snapshots, connection)
        for number in range(3):
            snapshots.confirm(topic(f"{connection}-{number}"), connection)
    drained(snapshots, 1e6)
    kept = [snapshots._waiting, snapshots._turns, snapshots._unconfirmed, snapshots._filled]
    assert not any(kept)
