"""Commands as they come in: who may send them, each number once, and what is counted."""

import pytest
from support.learner_double import LearnerDouble
from support.makers import a_command, a_frame

from farflung.common.data.weights import Version
from farflung.common.net.keys import Client
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import Hello
from farflung.common.protocol.wire import Kind
from farflung.learner.endpoint.commands import COMMANDS
from farflung.learner.endpoint.items import PARCELS
from farflung.learner.observe.endpoint_status import endpoint_status

OPERATOR = Client("lab", "operator", 1, "10.0.0.7")
BROKER = Client("edge", "broker", 2, "10.0.0.8")
ACTOR = Client("lab", "actor", 3, "10.0.0.9")
NEAR, FAR = Client("", "broker", 4, "127.0.0.1"), Client("", "broker", 5, "10.0.0.7")


@pytest.fixture
def side():
    """A learner's side that takes commands."""
    return LearnerDouble(takes=PARCELS | {Kind.COMMAND})


def sent(side, sender, now=0.0, **changes):
    """Let a client send a command; return the item, if it is one."""
    frame = bytes(wire.encode(a_command(**{"actor": "lab/me", **changes})))
    side.endpoint.receive([(frame, sender)], now)
    commands = side.endpoint.queue.commands
    return commands.take(len(commands))


def books(side):
    """Return the books of commands as the status has them."""
    return endpoint_status(side.endpoint, 0.0).commands


def told(side, now=0.0):
    """Return the acknowledgements that are due, by incarnation."""
    found = {}
    for topic, frame in side.endpoint.due(now):
        if (private := topics.parse_private(topic)) is not None:
            message = wire.read(wire.open_frame(frame))
            found[private.incarnation] = message.highest, message.refused
    return found


@pytest.mark.parametrize(
    ("sender", "by"),
    [
        (OPERATOR, "lab/me at 10.0.0.7"),
        (BROKER, "lab/me through edge at 10.0.0.8"),
        (NEAR, "lab/me at 127.0.0.1"),
    ],
)
def test_command_of_one_who_may_steer_is_handed_on_with_who_asked(side, sender, by):
    """It is acknowledged once it is settled, and not before."""
    (item,) = sent(side, sender)
    assert (item.content, item.by) == (a_command(actor="lab/me"), by)
    assert told(side) == {7: (0, ())}
    assert (books(side).received, books(side).waiting, books(side).done) == (1, 1, 0)
    item.settle()
    side.endpoint.settle()
    assert told(side, 1.0) == {7: (1, ())}
    assert (books(side).waiting, books(side).done) == (0, 1)


def test_refusal_of_the_executor_reaches_the_sender(side):
    """Under its number, with a reason."""
    (item,) = sent(side, OPERATOR)
    item.settle("no effect")
    side.endpoint.settle()
    assert told(side) == {7: (1, ((1, "no effect"),))}
    assert books(side).refused == {"no effect": 1}


def test_repeated_command_is_handed_on_once(side):
    """Also through another connection, as a broker's; its sender is told again."""
    (item,) = sent(side, OPERATOR)
    assert sent(side, OPERATOR) == []  # while it waits
    item.settle()
    side.endpoint.settle()
    told(side)
    assert sent(side, BROKER, 1.0) == []
    assert told(side, 1.0) == {7: (1, ())}
    assert (books(side).received, books(side).repeated, books(side).done) == (3, 2, 1)


@pytest.mark.parametrize(
    ("sender", "who"), [(ACTOR, "a key of role actor"), (FAR, "another machine")]
)
def test_client_without_the_right_is_refused_and_counted(side, sender, who):
    """Its screen line comes once; it is told nothing, and the number is free for who has it."""
    for _ in range(3):
        assert sent(side, sender) == []
    assert books(side).refused == {"role": 3}
    assert told(side) == {}
    (problem,) = side.receiver.problems
    assert who in problem
    assert len(sent(side, OPERATOR)) == 1


def test_stranger_that_replays_an_operators_bytes_changes_nothing(side):
    """Neither before the operator's own copy nor after it."""
    frame = bytes(wire.encode(a_command(actor="lab/me")))
    side.endpoint.receive([(frame, ACTOR), (frame, OPERATOR), (frame, ACTOR), (frame, None)], 0.0)
    assert len(side.endpoint.queue.commands) == 1
    assert (books(side).refused, books(side).waiting) == ({"role": 2, "revoked": 1}, 1)


def test_operator_may_not_send_rows_or_join(side):
    """Its key is no actor's."""
    hello = Hello("run-1", "default", "lab/me", 8, 0, Version(0, 0), 1)
    frames = [a_frame(side.spec, actor="lab/me"), bytes(wire.encode(hello))]
    side.endpoint.receive([(frame, OPERATOR) for frame in frames], 0.0)
    assert side.receiver.inbox.ledger.refused == {"role": 2}
    assert not list(side.endpoint.roster)


def test_one_who_steers_is_no_actor_of_the_status(side):
    """Nor does it take a share of the credit."""
    (item,) = sent(side, OPERATOR)
    item.settle()
    side.endpoint.settle()
    assert endpoint_status(side.endpoint, 0.0).actors == ()
    assert side.receiver.names.sharers(2.0) == 0


def test_command_for_any_epoch_comes_from_the_folder_alone(side):
    """Over the wire it could be repeated at the next start of the learner."""
    assert sent(side, OPERATOR, epoch=0) == []
    assert books(side).refused == {"epoch": 1}


def test_flood_of_commands_is_bounded(side):
    """Each is answered on disk. What is refused for its rate may come again."""
    taken = sum(len(sent(side, OPERATOR, incarnation=n + 10)) for n in range(3 * COMMANDS))
    assert taken == COMMANDS
    assert books(side).refused == {"rate": 2 * COMMANDS}
    assert len(sent(side, OPERATOR, 2.0, incarnation=2 * COMMANDS)) == 1


def test_numbers_far_from_those_before_are_no_commands(side):
    """They are counted once."""
    assert sent(side, OPERATOR, sequence=10_000) == []
    assert books(side).refused == {"number out of range": 1}


def test_rows_and_commands_under_one_incarnation_are_refused(side):
    """So an inbox that a journal keeps has no number of a command."""
    (item,) = sent(side, NEAR, actor="box-1")
    item.settle()
    side.endpoint.receive([(a_frame(side.spec), NEAR)], 0.0)
    assert side.receiver.inbox.ledger.refused == {"kind": 1}


def test_bytes_that_are_no_frame_are_in_no_book_of_commands(side):
    """Also where one of them happens to be the number of the kind."""
    side.endpoint.receive([(b"\x00\x00\x01\x05" + bytes(300), OPERATOR)], 0.0)
    assert books(side).received == 0
    assert side.receiver.inbox.ledger.refused == {"magic": 1}
