"""The decisions of a broker, on the clock of the test."""

import pytest

from farflung.broker.relay import OWN, TOPICS, Backlog, Routes, Subscriptions, UpstreamHealth

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


def test_a_topic_is_asked_for_once_while_somebody_listens() -> None:
    """The second listener and the last but one to leave change nothing upstream."""
    subscriptions = Subscriptions()
    assert subscriptions.add(b"w/p/") == (b"\x01w/p/",)
    assert subscriptions.add(b"w/p/") == ()
    assert subscriptions.remove(b"w/p/") == ()
    assert subscriptions.remove(b"w/p/") == (b"\x00w/p/",)
    assert subscriptions.topics == sorted(OWN)


@pytest.mark.parametrize("topic", [b"s/p/", Z])
def test_a_question_is_asked_again_for_each_who_asks(topic: bytes) -> None:
    """The subscription triggers the answer.

    For a second subscriber the broker unsubscribes and subscribes again.
    """
    subscriptions = Subscriptions()
    assert subscriptions.add(topic) == (b"\x01" + topic,)
    assert subscriptions.add(topic) == (b"\x00" + topic, b"\x01" + topic)
    assert subscriptions.remove(topic) == ()
    assert subscriptions.remove(topic) == (b"\x00" + topic,)


def test_what_a_broker_hears_for_itself_nobody_can_take_from_it() -> None:
    """Another broker in front of it subscribes to the same, and leaves."""
    subscriptions = Subscriptions()
    assert subscriptions.add(b"c/") == ()
    assert subscriptions.remove(b"c/") == ()
    assert b"c/" in subscriptions.topics


def test_when_all_who_listened_are_gone_nothing_of_theirs_is_asked_for() -> None:
    """The broker's own subscriptions stay."""
    subscriptions = Subscriptions()
    for topic in (Z, b"w/p/", b"w/p/", b"c/"):
        subscriptions.add(topic)
    assert subscriptions.forget() == (b"\x00w/p/", b"\x00" + Z)
    assert subscriptions.topics == sorted(OWN)
    assert subscriptions.add(b"w/p/") == (b"\x01w/p/",)


def test_fresh_connections_ask_in_byte_order() -> None:
    """Questions come when the others stand."""
    subscriptions = Subscriptions()
    for topic in (Z, b"w/default/", b"c/default/"):
        subscriptions.add(topic)
    assert subscriptions.topics == [b"c/", b"c/default/", b"s/", b"t/broker:", b"w/default/", Z]


@pytest.mark.parametrize(
    ("topic", "agreed"),
    [(b"", False), (b"z/", False), (b"z/default/", False), (Z, True), (b"c/", True), (b"t/", True)],
)
def test_nobody_hears_everything_or_everybodys_snapshots(topic: bytes, agreed: bool) -> None:
    """The same rule as a learner's; what was not agreed to is not taken back either."""
    subscriptions = Subscriptions()
    assert subscriptions.accepts(topic) == agreed
    assert subscriptions.remove(b"nobody/") == ()


def test_topics_are_bounded() -> None:
    """A client that subscribes to every topic does not fill the memory.

    Topics that are already there can still be joined.
    """
    subscriptions = Subscriptions()
    for number in range(TOPICS - len(OWN)):
        subscriptions.add(b"w/%d/" % number)
    assert not subscriptions.accepts(b"w/new/")
    assert subscriptions.accepts(b"w/0/")


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
