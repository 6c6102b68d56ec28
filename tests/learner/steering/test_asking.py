"""One who asks: the same bytes until they are answered, and again only if they were not done."""

import pytest
from msgspec import structs

from farflung.common.data.weights import Version
from farflung.common.protocol import wire
from farflung.common.protocol.messages import Acknowledgement, Beacon, Credit, State
from farflung.learner.steering.asking import Asking

BEACON = Beacon("run-1", "default", 5, Version(1, 2), 10, 3, State.RUN)


@pytest.fixture
def asking():
    return Asking("lab/me", BEACON, "set", {"weight": 2.0})


def command(frame):
    """Return the command in a frame."""
    return wire.read(wire.open_frame(frame))


def answer(asking, highest=1, epoch=1, refused=(), **changes):
    """Let the learner answer."""
    sent = command(asking._frame)
    message = Acknowledgement(
        sent.run,
        sent.policy,
        sent.actor,
        sent.incarnation,
        5,
        epoch,
        highest,
        (),
        refused,
        Credit(1, 1),
    )
    asking.receive(bytes(wire.encode(structs.replace(message, **changes))), 0.0)


def test_same_bytes_are_sent_again_until_they_are_answered(asking):
    """Once a second."""
    first = asking.due(0.0)
    assert command(first).arguments == {"weight": 2.0}
    assert (command(first).epoch, command(first).sequence) == (1, 1)
    assert asking.due(0.5) is None
    assert asking.due(1.0) == first
    answer(asking, highest=0)
    assert asking.due(2.0) == first
    answer(asking)
    assert asking.answered
    assert asking.reason == ""
    assert asking.due(9.0) is None


def test_refusal_has_its_reason(asking):
    """It is an answer."""
    answer(asking, refused=((1, "no effect"),))
    assert (asking.answered, asking.reason) == (True, "no effect")


def test_learner_that_was_started_again_and_knows_the_command_has_done_it(asking):
    """The answer of the epoch before counts."""
    answer(asking, epoch=2)
    assert (asking.answered, asking.repeated) == (True, 0)


def test_learner_that_was_started_again_before_it_did_it_is_asked_again(asking):
    """Under the next number, for its epoch, with the same topics."""
    topics = asking.topics
    answer(asking, epoch=2, refused=((1, "epoch"),))
    assert not asking.answered
    again = command(asking.due(0.0))
    assert (again.epoch, again.sequence, again.base) == (2, 2, 2)
    assert asking.topics == topics
    answer(asking, epoch=2, refused=((1, "epoch"),))  # an old acknowledgement
    assert not asking.answered
    answer(asking, highest=2, epoch=2)
    assert (asking.answered, asking.repeated) == (True, 1)


def test_epoch_refused_by_the_same_learner_is_an_answer(asking):
    """It is not asked for ever."""
    answer(asking, refused=((1, "epoch"),))
    assert (asking.answered, asking.reason) == (True, "epoch")


@pytest.mark.parametrize(
    "other", [{"run": "run-2"}, {"policy": "red"}, {"actor": "lab/you"}, {"incarnation": 1}]
)
def test_answers_to_others_are_passed_over(asking, other):
    """So are bytes that are none."""
    answer(asking, **other)
    asking.receive(b"abc", 0.0)
    assert not asking.answered


def test_state_of_the_learner_is_that_of_its_last_beacon(asking):
    """One that left will not answer."""
    assert not asking.has_left
    asking.receive(bytes(wire.encode(structs.replace(BEACON, state=State.AWAY))), 0.0)
    assert asking.has_left
