"""The bytes that libzmq holds, by hand-worked numbers."""

import pytest

from farflung.common.net.connections import Connection, Handed
from farflung.common.net.intake import (
    FRAME_BYTES,
    LEAST_TOPICS,
    TOPICS,
    UNFINISHED,
    UNREAD,
    Intake,
)


def a_connection(number, size=0, messages=0, speaks=True):
    """Return a connection that handed us so much."""
    handed = Handed() if speaks else None
    if handed is not None:
        handed.size, handed.messages = size, messages
    return Connection(number, ("10.0.0.1", number), number, "10.0.0.1", handed)


def ended(found):
    """Return descriptors and reasons."""
    return [(excess.connection.descriptor, excess.reason) for excess in found]


def test_subscriptions_that_wait_are_bounded_and_the_largest_go():
    """Of three connections the two largest end; then the rest is within the bound."""
    large, middle, small = (a_connection(number, 1000, 10) for number in (1, 2, 3))
    received = {small: 1000 + TOPICS // 2, large: 1000 + 2 * TOPICS, middle: 1000 + TOPICS}
    intake = Intake()
    assert ended(intake.excess_of_topics(received, 0)) == [(1, "topics"), (2, "topics")]
    assert intake.topics == 3.5 * TOPICS - 3 * LEAST_TOPICS
    assert not ended(Intake().excess_of_topics({small: received[small]}, 0))


def test_a_thousand_connections_with_little_each_are_not_ended():
    """A fleet that joins at once has some hundred bytes on each connection."""
    fleet = {a_connection(number): LEAST_TOPICS for number in range(1000)}
    assert not ended(Intake().excess_of_topics(fleet, 0))


def test_what_was_read_from_a_feed_is_not_held_against_it_later():
    """The frames around topics count as read once the feed was drained twice since a look."""
    broker = a_connection(1, 4 * TOPICS, 1000)
    intake = Intake()
    received = {broker: 4 * TOPICS + TOPICS // 2}
    for drained in (2, 3, 4):
        assert not ended(intake.excess_of_topics(received, drained))
    assert broker.handed.rebate == TOPICS // 2
    assert not ended(intake.excess_of_topics({broker: 5 * TOPICS}, 5))
    assert ended(intake.excess_of_topics({broker: 6 * TOPICS}, 5)) == [(1, "topics")]


@pytest.mark.parametrize("speaks", [True, False])
def test_a_message_without_an_end_is_found_once_all_others_were_read(speaks):
    """Before that it may be that complete messages wait: a busy learner ends no actor."""
    peer, intake = a_connection(1, speaks=speaks), Intake()
    assert not ended(intake.excess_of_messages({peer: UNFINISHED + 1}, 7))
    assert not ended(intake.excess_of_messages({peer: UNFINISHED + 1}, 8))
    found = intake.excess_of_messages({peer: UNFINISHED + 1}, 9)
    assert ended(found) == [(1, "unfinished")]


def test_the_largest_message_is_no_message_without_an_end():
    """It may be on its way for as long as it takes."""
    peer, intake = a_connection(1), Intake()
    for drained in range(0, 20, 2):
        assert not ended(intake.excess_of_messages({peer: UNFINISHED}, drained))


def test_learner_of_large_weights_lets_a_message_be_larger_by_as_much():
    """With messages of 100 MiB, 36 MiB more than usual may be on their way."""
    peer, intake = a_connection(1), Intake(100 << 20)
    for drained in range(0, 20, 2):
        assert not ended(intake.excess_of_messages({peer: UNFINISHED + (36 << 20)}, drained))
    found = intake.excess_of_messages({peer: UNFINISHED + (36 << 20) + 1}, 20)
    assert not ended(found)
    found = intake.excess_of_messages({peer: UNFINISHED + (36 << 20) + 1}, 22)
    assert ended(found) == [(1, "unfinished")]


def test_small_messages_are_no_credit_for_a_message_without_an_end():
    """Their frames count as more than they are, but never as more than was received."""
    peer, intake = a_connection(1, 10_000_000, 10_000_000), Intake()
    assert not ended(intake.excess_of_messages({peer: 30_000_000}, 2))
    assert peer.handed.rebate == 10_000_000 * (1 + FRAME_BYTES) - 30_000_000
    received = {peer: 30_000_000 + UNFINISHED + 1}
    assert not ended(intake.excess_of_messages(received, 4))
    assert ended(intake.excess_of_messages(received, 6)) == [(1, "unfinished")]


def test_what_all_connections_sent_and_was_not_read_is_bounded():
    """The largest one ends, even while nothing is read."""
    first, second = a_connection(1), a_connection(2)
    intake = Intake()
    assert not ended(intake.excess_of_messages({first: UNREAD // 2, second: UNREAD // 2}, 0))
    found = intake.excess_of_messages({first: UNREAD // 2, second: UNREAD // 2 + 1}, 0)
    assert ended(found)[0] == (2, "unread")
