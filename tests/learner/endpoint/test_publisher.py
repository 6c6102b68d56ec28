"""The outgoing side: each message when it is due, as a state that may be lost and sent again."""

import pytest
from support.learner_double import LearnerDouble
from support.makers import a_frame, a_spec, some_weights

from farflung.common.data.spec import Rounds
from farflung.common.data.weights import Version
from farflung.common.net.keys import Client
from farflung.common.process.errors import Refused
from farflung.common.protocol import tensors, topics, wire
from farflung.common.protocol.messages import Acknowledgement, Beacon, Credit, Hello, State
from farflung.common.protocol.names import UNTIL_SHARE
from farflung.learner.endpoint.publisher import EVALUATOR, Outlook

OUTLOOK = Outlook(room=1024, steps=300, updates=20)
S, W, C, T = b"s/default/", b"w/default/", b"c/default/", b"t/default/"


@pytest.fixture
def side():
    """A learner's side without sockets. One parcel with rows brings a share of the credit."""
    return LearnerDouble(learner_id=5, versions=0, until_share=1)


def said(side, now=0.0, outlook=OUTLOOK):
    return [(topic, bytes(frame)) for topic, frame in side.publisher.due(outlook, now)]


def messages(side, topic, now=0.0, outlook=OUTLOOK):
    """Return the messages that are due on a topic, read."""
    return [
        wire.read(wire.open_frame(frame))
        for found, frame in said(side, now, outlook)
        if found == topic
    ]


def private(nonce, actor="box-1"):
    return topics.snapshot("default", actor, 7, nonce)


def own(actor="box-1"):
    """Return the topic of an actor's acknowledgements."""
    return topics.acknowledgement("default", actor, 7)


def joined(side, actor="box-1", evaluates=False, now=0.0):
    side.receiver.receive(
        bytes(wire.encode(Hello("run-1", "default", actor, 7, 0, Version(1, 1), 1, 1, evaluates))),
        now,
    )


def test_a_late_joiner_gets_the_newest_weights_at_once(side):
    """An actor that subscribes to a topic of its own is sent the spec and the newest version in
    the same moment.
    """
    for number in (1, 2, 3):
        side.publisher.publish(some_weights(side.spec, number, value=number))
    said(side)
    assert side.publisher.subscribed(private(9))
    (announced, weights), beacons = said(side, now=0.001)[:2], said(side, now=0.001)[2:]
    assert announced[0] == weights[0] == private(9)
    announcement = wire.read(wire.open_frame(announced[1]))
    assert (announcement.spec, announcement.learner_id, announcement.epoch) == (side.spec, 5, 1)
    read = tensors.read_weights(wire.open_frame(weights[1]), side.spec.graph.weights)
    assert read.version == Version(1, 3)
    assert read.arrays["matrix"].tolist() == [[3, 3], [3, 3]]
    assert beacons == []


def test_nobody_asks_in_another_name(side):
    """Nor takes another's question back; a shared topic belongs to all."""
    robot = Client("robot", "actor")
    side.publisher.publish(some_weights(side.spec))
    with pytest.raises(Refused, match="label"):
        side.publisher.subscribed(private(1, "actor/box"), robot)
    assert side.publisher.subscribed(private(2, "actor/box"), Client("actor", "actor"))
    side.publisher.unsubscribed(private(2, "actor/box"), robot)
    assert side.publisher.subscribed(topics.weights("default"), robot)
    assert [topic for topic, _ in said(side) if topic.startswith(b"z/")] == [
        private(2, "actor/box")
    ] * 2


def test_places_are_handed_out_in_order(side):
    """The first two to ask are actors 0 and 1.

    A second incarnation of the first is start 1 of index 0.
    """
    side.publisher.publish(some_weights(side.spec))
    found = []
    for topic in (private(1), private(2, "box-2"), topics.snapshot("default", "box-1", 8, 3)):
        side.publisher.subscribed(topic)
        frame = next(frame for found_topic, frame in said(side) if found_topic == topic)
        announcement = wire.read(wire.open_frame(frame))
        found.append((announcement.index, announcement.start))
        side.publisher.unsubscribed(topic)
    assert found == [(0, 0), (1, 0), (0, 1)]


def test_a_question_waits_for_the_first_weights(side):
    """Before there are any weights a snapshot would be of no use.

    It is sent with the first publication.
    """
    side.publisher.subscribed(private(1))
    assert [topic for topic, _ in said(side)] == [C]
    side.publisher.publish(some_weights(side.spec))
    assert [topic for topic, _ in said(side, now=0.1)].count(private(1)) == 2


@pytest.mark.parametrize(
    "topic",
    [
        b"",
        b"z/",
        b"z",
        b"z/default/",
        b"z/other/box-1/0000000000000007/0000000000000001",
        b"z/default/box-1/7/1",
    ],
)
def test_what_nobody_needs_is_refused(side, topic):
    """Everything at once, the snapshots of all, another policy's, and what is no question."""
    assert not side.publisher.subscribed(topic)


@pytest.mark.parametrize("topic", [S, W, C, T, b"t/"])
def test_what_somebody_needs_is_allowed(side, topic):
    """The spec, weights, beacons and telemetry."""
    assert side.publisher.subscribed(topic)


def test_who_asks_for_the_spec_gets_it(side):
    """A watcher of the spec is answered at once, without a place in the run."""
    side.publisher.subscribed(S)
    (announcement,) = messages(side, S)
    assert (announcement.spec, announcement.index, announcement.start) == (side.spec, -1, -1)


def test_at_most_two_snapshots_are_unconfirmed(side, monkeypatch):
    """Of three who ask at once the third waits, until one says hello or two seconds have passed."""
    monkeypatch.setattr(
        "farflung.common.protocol.snapshots.AT_ONCE_BYTES", 1
    )  # as of weights that are large
    side.publisher.publish(some_weights(side.spec))
    for nonce in (1, 2, 3):
        side.publisher.subscribed(private(nonce, f"box-{nonce}"))
    served = {topic for topic, _ in said(side) if topic.startswith(b"z/")}
    assert served == {private(1, "box-1"), private(2, "box-2")}
    assert private(3, "box-3") not in {topic for topic, _ in said(side, now=1.9)}
    side.receiver.receive(
        bytes(wire.encode(Hello("run-1", "default", "box-1", 7, 1, Version(1, 1), 1))), 1.9
    )
    assert private(3, "box-3") in {topic for topic, _ in said(side, now=1.95)}


def test_an_unconfirmed_snapshot_gives_way_after_two_seconds(side, monkeypatch):
    """A joiner that died on the way holds up no other for longer."""
    monkeypatch.setattr(
        "farflung.common.protocol.snapshots.AT_ONCE_BYTES", 1
    )  # as of weights that are large
    side.publisher.publish(some_weights(side.spec))
    for nonce in (1, 2, 3):
        side.publisher.subscribed(private(nonce, f"box-{nonce}"))
    said(side)
    assert private(3, "box-3") in {topic for topic, _ in said(side, now=2.0)}


def test_who_unsubscribed_is_not_served(side):
    """A question that was taken back is forgotten."""
    side.publisher.subscribed(private(1))
    side.publisher.unsubscribed(private(1))
    side.publisher.unsubscribed(W)
    side.publisher.publish(some_weights(side.spec))
    assert private(1) not in {topic for topic, _ in said(side)}


def test_weights_are_said_once_to_all(side):
    """A publication goes out when it is made; later joiners get it as a snapshot."""
    side.publisher.publish(some_weights(side.spec))
    assert [topic for topic, _ in said(side)].count(W) == 1
    assert [topic for topic, _ in said(side, now=5.0)].count(W) == 0


def test_beacon_has_what_all_actors_share(side):
    """Run, learner, epoch and version, steps and updates, and state: nothing of any actor."""
    side.publisher.publish(some_weights(side.spec, number=4))
    joined(side)
    side.publisher.state = State.AWAY
    (beacon,) = messages(side, C)
    figures = (300, 20, State.AWAY)
    assert beacon == Beacon("run-1", "default", 5, Version(1, 4), *figures)


def test_acknowledgement_has_the_numbers_and_the_origin(side):
    """Of numbers 1, 2 and 4 the second is refused and the third is missing."""
    for number, schema in ((1, side.spec.schema), (2, "x"), (4, side.spec.schema)):
        accepted = side.receiver.receive(a_frame(side.spec, sequence=number, schema=schema), 0.0)
        if accepted:
            side.receiver.settle(accepted.envelope)
    (found,) = messages(side, own(), outlook=Outlook(8 * 4, 0, 0))
    numbers = (4, (3,), ((2, "schema"),))
    credit = Credit(4, 64 << 20)
    assert found == Acknowledgement("run-1", "default", "box-1", 7, 5, 1, *numbers, credit)


def test_a_beacon_comes_every_second(side):
    """With nothing new there is one a second."""
    assert len(messages(side, C, now=0.0)) == 1
    assert len(messages(side, C, now=0.99)) == 0
    assert len(messages(side, C, now=1.0)) == 1


def test_beacon_comes_at_once_when_the_state_changes(side):
    """A learner that has restored, or that leaves, does not wait for its second."""
    side.publisher.state = State.RESTORING
    assert [beacon.state for beacon in messages(side, C, now=0.0)] == [State.RESTORING]
    side.publisher.state = State.RUN
    assert [beacon.state for beacon in messages(side, C, now=0.01)] == [State.RUN]
    assert messages(side, C, now=0.02) == []


def test_acknowledgement_does_not_wait_for_the_second(side):
    """It comes a hundredth of a second after the parcel, to the actor that sent it alone."""
    joined(side, "box-2")
    said(side, now=0.0)
    side.receiver.settle(side.receiver.receive(a_frame(side.spec), 0.02).envelope)
    found = [topic for topic, _ in said(side, now=0.02) if topic.startswith(b"a/")]
    assert found.count(own()) == 1
    for now in (0.03, 0.04):
        found = [topic for topic, _ in said(side, now=now)]
        assert own() not in found


def test_acknowledgement_is_repeated_every_second(side):
    """Losing one is harmless: without news the next one says the same."""
    joined(side)
    times = [step / 100 for step in range(400)]
    sent = [now for now in times if messages(side, own(), now=now)]
    assert sent == [0.0, 1.0, 2.0, 3.0]


def test_feed_agrees_to_an_actors_own_acknowledgements_only(side):
    """Of this policy, well-formed, by a key that may speak for the actor."""
    key = Client("actor", "actor")
    assert side.publisher.subscribed(own())
    assert side.publisher.subscribed(own("actor/box"), key)
    with pytest.raises(Refused, match="label"):
        side.publisher.subscribed(own("robot/box"), key)
    for topic in (b"a/", b"a/default/", b"a/default/box-1/", b"a/other/box-1/0000000000000007"):
        assert not side.publisher.subscribed(topic)


def test_a_hurried_beacon_comes_at_once(side):
    """The last word does not wait for its second."""
    messages(side, C, now=0.0)
    side.publisher.hurry()
    assert len(messages(side, C, now=0.1)) == 1


def test_an_acknowledgement_goes_out_before_the_beacon_of_the_end(side):
    """An actor that learns that the run is over knows by then what was taken."""
    joined(side)
    said(side)
    side.receiver.settle(side.receiver.receive(a_frame(side.spec), 0.001).envelope)
    side.publisher.state = State.STOP
    side.publisher.hurry()
    assert [topic for topic, _ in said(side, now=0.002)] == [own(), C]


def test_no_room_is_no_credit(side):
    """Without room in pacing nothing new may be sent: so collection pauses."""
    joined(side)
    (found,) = messages(side, own(), outlook=Outlook(0, 0, 0))
    assert found.credit == Credit(0, 0)


def test_credit_is_a_share_of_the_room(side):
    """Room for 1100 rows counts as 1024.

    Two actors with parcels of 7.7 rows may have 66 each, within half a gigabyte and 64 MiB.
    """
    for actor in ("box-1", "box-2"):
        joined(side, actor)
        side.receiver.receive(a_frame(side.spec, actor=actor), 0.0)
    (found,) = messages(side, own(), outlook=Outlook(1100, 0, 0))
    assert found.credit == Credit(66, 64 << 20)


def test_names_without_parcels_take_no_share_and_get_one_message(side):
    """A thousand names that only say hello change nothing for an actor with parcels."""
    joined(side)
    side.receiver.receive(a_frame(side.spec), 0.0)
    for number in range(1000):
        joined(side, f"name-{number}")
    (found,) = messages(side, own(), outlook=Outlook(1024, 0, 0))
    assert found.credit == Credit(133, 64 << 20)
    joined(side, "box-2", now=1.0)
    (found,) = messages(side, own("box-2"), outlook=Outlook(1024, 0, 0), now=1.0)
    assert found.credit == Credit(1, 64 << 20)
    joined(side, "box-3", now=2.0)
    (found,) = messages(side, own("box-3"), outlook=Outlook(0, 0, 0), now=2.0)
    assert found.credit.messages == 0


def test_credit_does_not_change_with_every_joiner(side):
    """A hundred actors and a hundred and one have the same share."""
    for number in range(100):
        joined(side, f"box-{number}")
    said(side, now=0.0)
    joined(side, "box-100", now=0.1)
    found = [topic for topic, _ in said(side, now=0.1) if topic.startswith(b"a/")]
    assert found == [own("box-100")]


def test_credit_that_moves_a_little_is_not_told_again(side):
    """Room that shrinks by a few rows stays at the same power of two.

    Nothing changed for any actor.
    """
    joined(side)
    side.receiver.receive(a_frame(side.spec), 0.0)
    messages(side, own(), now=0.0, outlook=Outlook(1100, 0, 0))
    assert messages(side, own(), now=0.5, outlook=Outlook(1030, 0, 0)) == []
    assert len(messages(side, own(), now=0.6, outlook=Outlook(1000, 0, 0))) == 1


def test_evaluators_have_credit_of_their_own(side):
    """Results without rows do not wait for pacing."""
    joined(side, evaluates=True)
    (found,) = messages(side, own(), outlook=Outlook(0, 0, 0))
    assert found.credit == EVALUATOR


@pytest.mark.parametrize("claims_to_play", [False, True])
def test_evaluator_that_brings_rows_waits_for_pacing(claims_to_play):
    """It has credit for one parcel at a time from its first on, and earns no share with more.

    Else a start that says that it evaluates could bring many parcels at once, and pay with rows
    that it had no credit for. To say later that it plays changes nothing.
    """
    side = LearnerDouble(learner_id=5, versions=0)
    joined(side, evaluates=True)
    messages(side, own())
    if claims_to_play:
        joined(side)
    for number in range(1, 1 + EVALUATOR.messages):
        assert side.receiver.receive(a_frame(side.spec, sequence=number), 0.0)
    (found,) = messages(side, own(), now=0.1)
    assert found.credit == Credit(1, 64 << 20)
    assert side.receiver.names.sharers(2.0) == 0
    (found,) = messages(side, own(), now=0.2, outlook=Outlook(0, 0, 0))
    assert found.credit == Credit(0, 0)


def test_start_of_an_actor_has_credit_for_one_parcel_until_its_sixteenth():
    """Then it has its share of the room; another one that starts takes nothing of that."""
    side = LearnerDouble(learner_id=5, versions=0)
    granted = []
    for number in range(1, 2 + UNTIL_SHARE):
        now = number / 10
        item = side.receiver.receive(a_frame(side.spec, sequence=number), now)
        side.receiver.settle(item.envelope)
        side.receiver.receive(a_frame(side.spec, actor=f"box-{number}", incarnation=8), now)
        (found,) = messages(side, own(), now)
        granted.append(found.credit.messages)
    # Of 1,024 rows, in parcels of 4.8 and then 4.7: one of 8 was expected, and each has 3.
    assert granted == [*[1] * (UNTIL_SHARE - 1), 214, 219]


def test_telemetry_names_its_learner(side):
    """Figures go to all that watch, once."""
    side.publisher.publish_telemetry('{"steps":1}')
    (telemetry,) = messages(side, T)
    assert (telemetry.run, telemetry.policy, telemetry.learner_id, telemetry.document) == (
        "run-1",
        "default",
        5,
        '{"steps":1}',
    )
    assert messages(side, T, now=5.0) == []


@pytest.mark.parametrize(
    ("rounds", "says"),
    [
        (None, []),
        (
            Rounds(1),
            ["box-1 (actor 0.0) ended in round 3: box-1 (actor 0.1) plays it from its beginning"],
        ),
    ],
    ids=["no rounds", "rounds"],
)
def test_end_of_an_actor_in_a_round_is_in_the_log(caplog, rounds, says):
    """Its next start plays the round from its beginning. The place of an evaluator is none."""
    side = LearnerDouble(a_spec(rounds=rounds), versions=3)
    for incarnation in (7, 8):
        for actor, evaluates in (("box-1", False), ("judge", True)):
            topic = topics.snapshot("default", actor, incarnation, topics.draw_nonce(evaluates))
            assert side.publisher.subscribed(topic)
            said(side, float(incarnation))
    assert [record.message for record in caplog.records] == says
