"""Archived versions on their way from a learner to an actor. Time is a number."""

from pathlib import Path
from typing import Any

import pytest
from support.learner_double import LearnerDouble
from support.makers import some_weights
from support.stamps import a_stamp_spec
from support.waiting import eventually

from farflung.actor.connection.archive import ASK_AGAIN_S, KEPT, Archive
from farflung.actor.connection.policy_client import PolicyClient
from farflung.common.data.weights import Version
from farflung.common.protocol import tensors, topics, wire
from farflung.learner.storage import archive as stored

SPEC = a_stamp_spec()
ONE, TWO = Version(1, 1), Version(1, 2)


@pytest.fixture
def joined(tmp_path: Path) -> tuple[LearnerDouble, PolicyClient]:
    """Return a learner with two archived versions, and a client of it."""
    learner, client = LearnerDouble(SPEC, versions=3), PolicyClient("p", "a", 1)
    for version in (ONE, TWO):
        stored.add(tmp_path, some_weights(SPEC, version.number, value=version.number), 0, 9)
    learner.publisher.archives.read = lambda version: stored.read_frame(tmp_path, version)
    client.rebuilt(0.0)
    client.ask(0.0)
    learner.send_to(client, 0.0)
    learner.receive_from(client, 0.0)
    return learner, client


def arrived(learner: LearnerDouble, client: PolicyClient, version: Version, now: float) -> Any:
    """Exchange messages once; return the version if it came."""
    client.due(now)
    learner.send_to(client, now)
    return client.archive.take(version)


def test_client_gets_the_versions_that_it_wants(
    joined: tuple[LearnerDouble, PolicyClient], tmp_path: Path
) -> None:
    """One after the other, byte by byte what was archived; nothing stays subscribed."""
    learner, client = joined
    client.archive.want(TWO, ONE)
    two = eventually(lambda: arrived(learner, client, TWO, 1.0), "the first version")
    one = eventually(lambda: arrived(learner, client, ONE, 1.0), "the second version")
    for weights in (one, two):
        assert bytes(tensors.encode_weights(weights)) == stored.read_frame(
            tmp_path, weights.version
        )
    client.due(2.0)
    assert client.archive.topic is None
    assert not [topic for topic in client.subscriptions if topic.startswith(b"v/")]


def test_question_without_an_answer_is_asked_again_under_another_topic(
    joined: tuple[LearnerDouble, PolicyClient],
) -> None:
    """A version that is not there is not answered, and the learner goes on."""
    learner, client = joined
    client.archive.want(Version(1, 9))
    client.due(1.0)
    first = client.archive.topic
    learner.send_to(client, 1.0)
    client.due(1.0 + ASK_AGAIN_S / 2)
    assert client.archive.topic == first is not None
    client.due(1.0 + ASK_AGAIN_S)
    again = client.archive.topic
    assert again is not None
    assert again != first
    client.archive.want(ONE)
    assert eventually(lambda: arrived(learner, client, ONE, 9.0), "a version that is there")


def test_answer_of_another_version_is_refused(
    joined: tuple[LearnerDouble, PolicyClient], caplog: pytest.LogCaptureFixture
) -> None:
    """A version that was not asked for is named and passed over."""
    _, client = joined
    client.archive.want(ONE)
    client.due(1.0)
    assert client.archive.topic is not None
    other = bytes(tensors.encode_weights(some_weights(SPEC, 2)))
    client.receive(client.archive.topic, other, 1.0)
    assert "1.1 was asked for, and 1.2 came" in caplog.text
    assert client.archive.take(TWO) is None


def test_archive_of_an_actor_is_bounded() -> None:
    """Of versions that came and were not taken the last few stay."""
    archive = Archive("p", "a")
    for number in range(1, 3 * KEPT):
        archive.want(Version(1, number))
        archive.look(7, float(number))
        assert archive.topic is not None
        frame = bytes(tensors.encode_weights(some_weights(SPEC, number)))
        archive.receive(wire.open_frame(frame), SPEC)
    kept = [n for n in range(1, 3 * KEPT) if archive.take(Version(1, n)) is not None]
    assert kept == [*range(2 * KEPT, 3 * KEPT)]


def test_topic_of_an_archived_version_is_read_as_it_was_written() -> None:
    """It names actor, incarnation and version; a broker passes it on to the policy's learner."""
    topic = topics.archived("p", "label/a", 7, TWO, 12)
    found = topics.parse_private(topic)
    assert found is not None
    assert (found.actor, found.incarnation, found.nonce) == ("label/a", 7, None)
    assert (found.archived, found.question) == (TWO, 12)
    assert topics.is_allowed(topic)
    assert topics.parse_policy(topic) == "p"
    assert topics.parse_private(topic[:-1]) is None
    assert topics.parse_private(topic + b"/0") is None
