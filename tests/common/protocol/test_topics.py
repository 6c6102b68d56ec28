"""The topics of a feed: what is asked for by name, and in which order."""

import pytest

from farflung.common.protocol import topics
from farflung.common.protocol.topics import Private


def test_private_topics_have_their_parts():
    """Policy, actor with a key's label, incarnation and nonce come out as they went in."""
    asked = Private("left", "box/host-1a", 2**64 - 1, 0)
    assert topics.parse_private(topics.snapshot(*asked[:4])) == asked
    acknowledged = topics.acknowledgement("left", "box/host-1a", 2**63)
    assert acknowledged == b"a/left/box/host-1a/8000000000000000"
    assert topics.parse_private(acknowledged) == Private("left", "box/host-1a", 2**63, None)


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
        b"a/",
        b"a/left/box",
        b"a/left/box/1",
        b"a/left/box/000000000000000A",
        b"a/left/box/10000000000000001",
        b"a/left/box/0000000000000001/",
        b"a/left/box/0000000000000001/0000000000000002/0000000000000003",
        b"a/le ft/box/0000000000000001",
    ],
)
def test_what_is_no_question_is_none(topic):
    """Only a topic that this module can have made is private."""
    assert topics.parse_private(topic) is None


def test_no_private_topic_is_the_beginning_of_another():
    """Numbers have a fixed width: a subscriber receives no other actor's messages."""
    for numbers in (0, 1, 2**63):
        assert len(topics.snapshot("p", "a", numbers, numbers)) == len("z/p/a/") + 33
        assert len(topics.acknowledgement("p", "a", numbers)) == len("a/p/a/") + 16


def test_the_question_comes_last():
    """Libraries subscribe in byte order.

    When the question arrives, what it is about is subscribed already.
    """
    asked = topics.snapshot("default", "a", 1, 1)
    standing = [
        topics.acknowledgement("default", "a", 1),
        topics.announcement("default"),
        topics.weights("default"),
        topics.beacon("default"),
        topics.telemetry("default"),
    ]
    assert sorted([asked, *standing])[-1] == asked


def test_a_policys_topics_are_its_own():
    """`left` does not hear what is for `left-2`, and telemetry of all has a topic that begins them
    all.
    """
    for topic in (topics.announcement, topics.weights, topics.beacon, topics.telemetry):
        assert not topic("left-2").startswith(topic("left"))
    assert topics.telemetry("left").startswith(topics.telemetry())


@pytest.mark.parametrize(
    ("topic", "policy"),
    [
        (topics.announcement("left"), "left"),
        (topics.weights("left"), "left"),
        (topics.beacon("left"), "left"),
        (topics.snapshot("left", "box/a", 1, 2), "left"),
        (topics.acknowledgement("left", "box/a", 1), "left"),
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
    """Telemetry is not among them: it is no sign that the learner is there."""
    assert topics.parse_policy(topic) == policy


def test_a_brokers_figures_are_no_policys():
    """They are among those of all, and no name of a policy makes their topic."""
    assert topics.broker("relay").startswith(topics.broker())
    assert topics.broker("relay").startswith(topics.telemetry())
    assert topics.NAME.fullmatch("broker:relay") is None


@pytest.mark.parametrize(
    ("topic", "allowed"),
    [
        (b"", False),
        (b"z", False),
        (b"z/", False),
        (b"z/left/", False),
        (b"a", False),
        (b"a/", False),
        (b"a/left/", False),
        (b"a/left/box/", False),
        (b"a/left/box/00", False),
        (b"c/", True),
        (b"t/broker:", True),
        (b"t/broker:edge-1/", True),
        (b"w/left/", True),
        (b"t", False),
        (b"w/le", False),
        (b"w/left/more/", False),
        (b"w/le ft/", False),
        (b"w/" + b"x" * 64 + b"/", True),
        (b"w/" + b"x" * 65 + b"/", False),
        (b"z/left/" + b"x" * 65 + b"/0000000000000001/0000000000000002", False),
    ],
)
def test_a_malformed_subscription_is_refused(topic, allowed):
    """So is one to everything, or to all private topics. A whole private topic is one's own."""
    assert topics.is_allowed(topic) == allowed
    assert topics.is_allowed(topics.snapshot("left", "a", 1, 1))
    assert topics.is_allowed(topics.acknowledgement("left", "a", 1))


@pytest.mark.parametrize("topic", [b"s", b"s/", b"w/le", b"w/left/", b"c/", b"t/left/"])
def test_a_learner_agrees_to_the_beginnings_of_its_own_shared_topics(topic):
    """They are few, so nothing grows with what a client makes up."""
    assert topics.is_shared_of("left", topic)


@pytest.mark.parametrize("topic", [b"", b"a", b"z/", b"w/right/", b"w/left/more", b"t/broker:"])
def test_a_learner_agrees_to_no_other_shared_topic(topic):
    """It would never publish there."""
    assert not topics.is_shared_of("left", topic)


@pytest.mark.parametrize("wish", [topics.FREE, topics.OF_FIRST, 0, 1, 77, (1 << 20) - 3])
@pytest.mark.parametrize("evaluates", [False, True])
def test_question_names_the_index_that_is_asked_for(wish: int, evaluates: bool) -> None:
    """Beside the mark of an evaluator; no two questions are alike."""
    nonces = {topics.draw_nonce(evaluates, wish) for _ in range(100)}
    assert len(nonces) == 100
    for nonce in nonces:
        asked = topics.parse_private(topics.snapshot("default", "box-1", 7, nonce))
        assert asked is not None
        assert (asked.wish, asked.evaluates) == (wish, evaluates)


def test_index_beyond_all_rounds_cannot_be_asked_for() -> None:
    """There is no room for it in a nonce."""
    with pytest.raises(ValueError, match="no rounds have an actor of number 1048574"):
        topics.draw_nonce(False, (1 << 20) - 2)


def test_question_of_an_evaluator_says_so() -> None:
    """By the highest bit of its nonce; acknowledgements are of either."""
    for evaluates in (False, True):
        nonce = topics.draw_nonce(evaluates)
        asked = topics.parse_private(topics.snapshot("default", "box-1", 7, nonce))
        assert asked is not None
        assert asked.evaluates is evaluates
    acknowledgements = topics.parse_private(topics.acknowledgement("default", "box-1", 7))
    assert acknowledgements is not None
    assert not acknowledgements.evaluates
