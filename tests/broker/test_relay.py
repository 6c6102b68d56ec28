"""The decisions of a broker, on the clock of the test."""

import pytest

from farflung.broker.relay import (
    OWN,
    POLICIES,
    Backlog,
    Routes,
    Subscriptions,
    UpstreamHealth,
)
from farflung.common.protocol.learner_tracker import SILENCE_S

Z = b"z/default/box-1/0000000000000007/0000000000000001"


def test_a_policy_is_served_by_the_upstream_that_speaks_of_it() -> None:
    """Before the first message no upstream serves it; one upstream may have several policies."""
    routes = Routes()
    assert routes.find("red") is None
    assert routes.claim("red", 1, 0.0)
    assert routes.claim("blue", 1, 0.0)
    assert routes.find("red") == 1
    assert routes.of(1) == ("blue", "red")
    assert routes.of(0) == ()


def test_a_policy_does_not_jump_between_two_that_speak_of_it() -> None:
    """The first one keeps it while it speaks.

    After eight seconds of its silence the other one has it.
    """
    routes = Routes()
    routes.claim("red", 0, 0.0)
    assert not routes.claim("red", 1, 7.9)
    assert routes.find("red") == 0
    assert routes.claim("red", 1, 8.0)
    assert routes.find("red") == 1


def test_upstream_with_too_many_policies_is_refused_more() -> None:
    """One that has fallen silent makes room; another upstream has room of its own."""
    routes = Routes()
    for number in range(POLICIES):
        assert routes.has_room(f"p{number}", 0, number / POLICIES)
        assert routes.claim(f"p{number}", 0, number / POLICIES)
    assert routes.has_room("p7", 0, 1.0)
    assert not routes.has_room("red", 0, 1.0)
    assert routes.has_room("red", 1, 1.0)
    assert routes.has_room("red", 0, SILENCE_S)
    assert routes.find("p0") is None
    assert len(routes.of(0)) == POLICIES - 1


def test_a_backlog_is_bounded_in_bytes() -> None:
    """A message that does not fit is refused; the others come out in order."""
    backlog: Backlog[bytes] = Backlog(10)
    assert [backlog.put(b"x" * size) for size in (4, 6, 1)] == [True, True, False]
    assert (len(backlog), backlog.size) == (2, 10)
    assert backlog.first() == b"xxxx"
    assert backlog.take() == b"xxxx"
    assert backlog.put(b"y")
    assert backlog.size == 7


def test_one_frame_always_fits() -> None:
    """Else a message larger than the bound would never arrive."""
    backlog: Backlog[bytes] = Backlog(10)
    assert backlog.put(b"x" * 100)
    assert not backlog.put(b"")  # it waits behind a full queue
    assert backlog.clear() == 1
    assert (len(backlog), backlog.size, backlog.first()) == (0, 0, None)


def subscribe(subscriptions: Subscriptions, topic: bytes, connection: int = 1) -> tuple[bytes, ...]:
    """Subscribe for a connection; return what goes upstream."""
    subscriptions.add(topic, connection)
    return subscriptions.pass_on(topic)


def unsubscribe(subscriptions: Subscriptions, topic: bytes, connection: int) -> tuple[bytes, ...]:
    """Unsubscribe for a connection; return what goes upstream."""
    subscriptions.remove(topic, connection)
    return subscriptions.leave()


def test_a_topic_is_asked_for_once_while_it_has_subscribers() -> None:
    """The second subscriber and the last but one to leave change nothing upstream."""
    subscriptions = Subscriptions()
    assert subscribe(subscriptions, b"w/p/", 1) == (b"\x01w/p/",)
    assert subscribe(subscriptions, b"w/p/", 2) == ()
    assert unsubscribe(subscriptions, b"w/p/", 1) == ()
    assert unsubscribe(subscriptions, b"w/p/", 2) == (b"\x00w/p/",)
    assert subscriptions.topics == sorted(OWN)


def test_a_connection_takes_back_only_its_own() -> None:
    """It may repeat itself, and unsubscribe from what it never had: others keep their topics."""
    subscriptions = Subscriptions()
    subscribe(subscriptions, b"w/p/", 1)
    for _ in range(3):
        assert subscribe(subscriptions, b"w/p/", 2) == ()
        assert unsubscribe(subscriptions, b"w/p/", 3) == ()
    assert unsubscribe(subscriptions, b"w/p/", 2) == ()
    assert unsubscribe(subscriptions, b"w/p/", 2) == ()
    assert unsubscribe(subscriptions, b"w/p/", 1) == (b"\x00w/p/",)


@pytest.mark.parametrize("topic", [b"s/p/", Z])
def test_a_question_is_asked_again_for_each_subscriber(topic: bytes) -> None:
    """The subscription triggers the answer.

    For a second subscriber the broker unsubscribes and subscribes again.
    """
    subscriptions = Subscriptions()
    assert subscribe(subscriptions, topic, 1) == (b"\x01" + topic,)
    assert subscribe(subscriptions, topic, 2) == (b"\x00" + topic, b"\x01" + topic)
    assert unsubscribe(subscriptions, topic, 1) == ()
    assert unsubscribe(subscriptions, topic, 2) == (b"\x00" + topic,)


def test_an_answered_question_is_withdrawn_once() -> None:
    """Its subscriber may still be there, and may ask again."""
    subscriptions = Subscriptions()
    subscribe(subscriptions, Z)
    subscriptions.withdraw(Z)
    assert Z not in subscriptions.topics
    assert subscriptions.leave() == (b"\x00" + Z,)
    subscriptions.withdraw(Z)
    assert subscriptions.leave() == ()
    assert Z not in subscriptions.topics
    assert subscribe(subscriptions, Z) == (b"\x01" + Z,)
    assert unsubscribe(subscriptions, Z, 1) == (b"\x00" + Z,)


def test_a_question_without_a_subscriber_is_not_asked() -> None:
    """Its client has gone while it waited for its turn."""
    subscriptions = Subscriptions()
    subscriptions.add(Z, 1)
    assert unsubscribe(subscriptions, Z, 1) == ()
    assert subscriptions.pass_on(Z) == ()


def test_no_client_takes_what_a_broker_hears_for_itself() -> None:
    """Another broker in front of it subscribes to the same, and leaves."""
    subscriptions = Subscriptions()
    assert subscribe(subscriptions, b"c/") == ()
    assert unsubscribe(subscriptions, b"c/", 1) == ()
    assert b"c/" in subscriptions.topics


def test_fresh_connections_ask_in_byte_order() -> None:
    """Questions come when the others stand."""
    subscriptions = Subscriptions()
    for topic in (Z, b"w/default/", b"c/default/"):
        subscribe(subscriptions, topic)
    assert subscriptions.topics == [b"c/", b"c/default/", b"s/", b"t/broker:", b"w/default/", Z]


def test_silence_makes_it_connect_anew_with_growing_patience() -> None:
    """After 8 s, then 16, then 32 and no longer; a word brings the 8 s back."""
    health, now = UpstreamHealth(0.0), 0.0
    for patience_s in (8, 16, 32, 32):
        health.moved(now + patience_s - 0.1)
        assert not health.due(now + patience_s - 0.1)
        now += patience_s
        assert health.due(now).startswith("nothing was received for")
        health.built(now)
    health.received(now + 1)
    health.moved(now + 8)
    assert not health.due(now + 8.9)
    assert health.due(now + 9) == "nothing was received for 8 s"
    assert health.silence(now + 3) == 2
    assert health.builds == 5


def test_what_speaks_but_takes_nothing_is_connected_anew() -> None:
    """One of two connections can be dead alone.

    The clock runs while something waits that does not move.
    """
    health = UpstreamHealth(0.0)
    health.moved(5.0)
    health.received(13.0)
    assert not health.due(12.9)
    assert health.due(13.0) == "nothing was taken for 8 s"
    health.built(13.0)
    assert not health.due(20.9)
