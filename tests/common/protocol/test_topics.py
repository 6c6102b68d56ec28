"""The topics of a feed: what is asked for by name, and in which order."""

import pytest

from farflung.common.protocol import topics
from farflung.common.protocol.topics import Private


def test_a_private_topic_says_who_asks():
    """Policy, actor, incarnation and nonce come out as they went in, with a key's label before the actor's name."""
    asked = Private("left", "box/host-1a", 2**64 - 1, 0)
    assert topics.parse_private(topics.private(*asked)) == asked


@pytest.mark.parametrize(
    "topic",
    [
        b"",
        b"z/",
        b"w/left/",
        b"z/left/box/1/2",
        b"z/left/box/0000000000000001",
        b"z/le ft/box/0000000000000001/0000000000000002",
        b"z/left/b x/0000000000000001/0000000000000002",
        b"z/left/box/000000000000000g/0000000000000002",
        b"z/left/box/-000000000000001/0000000000000002",
        b"z/left/box/10000000000000001/0000000000000002",
        b"z/left/box/0000000000000001/0000000000000002/",
        b"z/left/a/b/c/0000000000000001/0000000000000002",
        "z/left/bóx/0000000000000001/0000000000000002".encode(),
        b"y/left/box/0000000000000001/0000000000000002",
    ],
)
def test_what_is_no_question_is_none(topic):
    """Only what `private` can have made is answered."""
    assert topics.parse_private(topic) is None


def test_no_private_topic_is_the_beginning_of_another():
    """Numbers have a fixed width: a subscriber hears nobody else's snapshot."""
    assert len({len(topics.private("p", "a", number, number)) for number in (0, 1, 2**63)}) == 1


def test_the_question_comes_last():
    """Libraries subscribe in byte order: when the question arrives, what it is about is subscribed already."""
    asked = topics.private("default", "a", 1, 1)
    standing = [
        topics.announcement("default"),
        topics.weights("default"),
        topics.beacon("default"),
        topics.telemetry("default"),
    ]
    assert sorted([asked, *standing])[-1] == asked


def test_a_policys_topics_are_its_own():
    """`left` does not hear what is for `left-2`, and telemetry of all has a topic that begins them all."""
    for topic in (topics.announcement, topics.weights, topics.beacon, topics.telemetry):
        assert not topic("left-2").startswith(topic("left"))
    assert topics.telemetry("left").startswith(topics.telemetry())


@pytest.mark.parametrize(
    ("topic", "policy"),
    [
        (topics.announcement("left"), "left"),
        (topics.weights("left"), "left"),
        (topics.beacon("left"), "left"),
        (topics.private("left", "box/a", 1, 2), "left"),
        (topics.telemetry("left"), None),
        (topics.broker("left"), None),
        (b"c/", None),
        (b"c/left", None),
        (b"c/a b/", None),
        (b"c/\xff/", None),
        (b"", None),
    ],
)
def test_a_learners_topics_name_its_policy(topic, policy):
    """All but the figures, which are nobody's promise to be there."""
    assert topics.parse_policy(topic) == policy


def test_a_brokers_figures_are_no_policys():
    """They are among those of all, and no name of a policy makes their topic."""
    assert topics.broker("relay").startswith(topics.broker())
    assert topics.broker("relay").startswith(topics.telemetry())
    assert topics.NAME.fullmatch("broker:relay") is None


@pytest.mark.parametrize(
    ("topic", "allowed"),
    [(b"", False), (b"z", False), (b"z/", False), (b"z/left/", False), (b"c/", True), (b"t", True)],
)
def test_nobody_subscribes_to_everything_or_to_everybodys_snapshots(topic, allowed):
    """A whole private topic is one's own."""
    assert topics.is_allowed(topic) == allowed
    assert topics.is_allowed(topics.private("left", "a", 1, 1))
