"""Whole conversations of a bad peer with a learner's endpoint, beside one honest actor.

An input is a sequence of turns: a message, a subscription, its end, a reconnect, time that passes,
and the honest actor's next parcel. Nothing may raise, the books balance, and the honest actor's
numbers are acknowledged as if it were alone.
"""

from contextlib import suppress
from dataclasses import replace
from enum import IntEnum
from typing import Any

import msgspec
from fuzz.inputs import MESSAGE, Structure, frame, join, split, unframed
from fuzz.messages import specs
from fuzz.target import Target
from support.makers import a_frame, some_weights
from support.messages import Sender, from_actor, parcel_of

from farflung.common.net.keys import ACTOR, ANY_CLIENT, BROKER, Client
from farflung.common.process.errors import Refused
from farflung.common.protocol import topics, wire
from farflung.common.protocol.acknowledgements import NEWS_S
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.messages import Acknowledgement
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.observe.endpoint_status import endpoint_status

LEARNER = 5
BAD: Sender = ("run-1", "default", "mallory/box-1", 7)
HONEST: Sender = ("run-1", "default", "honest/box-1", 8)
LOOPBACK = "127.0.0.1"
WAYS = (
    Client("mallory", ACTOR, 1, LOOPBACK),
    Client("edge", BROKER, 1, LOOPBACK),
    replace(ANY_CLIENT, connection=1, address=LOOPBACK),
)
FRIEND = Client("honest", ACTOR, 1 << 40, LOOPBACK)
TURNS = 24
MOST_PUBLISHED = 2_000  # messages in one round
ROOM = 10_000
UNITS_PER_S = 4  # of time in an input


class Turn(IntEnum):
    """A turn of a conversation; any other number means a message."""

    MESSAGE = 0
    SUBSCRIBE = 1
    UNSUBSCRIBE = 2
    RECONNECT = 3
    TIME = 4
    HONEST = 5


class Conversation:
    """An endpoint, an honest actor, and a bad peer that comes by one of WAYS."""

    def __init__(self, way: int) -> None:
        self.spec = specs()[0]
        self.endpoint = Endpoint(self.spec, learner_id=LEARNER)
        self.endpoint.publish(some_weights(self.spec))
        self.now, self.sequence = 100.0, 0
        self.peer, self.own = WAYS[way % len(WAYS)], FRIEND
        self.trusted = self.peer.role == BROKER  # it may speak in the name of the honest actor
        self._greet()

    def take(self, turn: int, body: bytes) -> None:
        """Take one turn."""
        if turn == Turn.SUBSCRIBE:
            self._subscribe(body, self.peer)
        elif turn == Turn.UNSUBSCRIBE:
            self.endpoint.unsubscribed(body, self.peer)
        elif turn == Turn.RECONNECT:
            self.peer = replace(self.peer, connection=self.peer.connection + 1)
        elif turn == Turn.TIME:
            self.now += int.from_bytes(body[:2], "little") / UNITS_PER_S
            self._greet()  # an actor is never silent: its learner would forget what it granted
            self._round()
        elif turn == Turn.HONEST:
            self._speak()
        else:
            self.endpoint.receive([(frame(body), self.peer)], self.now)

    def require(self) -> None:
        """Require all that a conversation may not change."""
        self.now += 1.0
        self._greet()
        self._speak()
        self._round()
        inbox = self.endpoint.inbox
        assert inbox.ledger.balanced
        if not self.trusted:
            found = inbox.received(*HONEST[2:])
            assert found == (self.sequence, (), ()), found
        assert Inbox.restore(inbox.state()).state() == inbox.state() | {"epoch": 2}
        msgspec.json.encode(endpoint_status(self.endpoint, self.now).actors)

    def _greet(self) -> None:
        for topic in (topics.acknowledgement(*HONEST[1:]), topics.snapshot(*HONEST[1:], 9)):
            self._subscribe(topic, self.own)
        hello = msgspec.structs.replace(from_actor(HONEST)["hello"], base=1, nonce=9)
        self.endpoint.receive([(wire.encode(hello), self.own)], self.now)

    def _speak(self) -> None:
        """Send the honest actor's next parcel once the one before is acknowledged."""
        self.now += 2 * NEWS_S  # until the acknowledgement leaves, and with it the credit
        self._round()
        self.sequence += 1
        sent = a_frame(
            self.spec, actor=HONEST[2], incarnation=HONEST[3], sequence=self.sequence, base=1
        )
        self.endpoint.receive([(sent, self.own)], self.now)
        self._round()

    def _subscribe(self, topic: bytes, sender: Client) -> None:
        try:
            self.endpoint.subscribed(topic, sender)
        except Refused as refusal:
            self.endpoint.receiver.refuse(refusal)

    def _round(self) -> None:
        """Let training take what waits, and the transport send what is due."""
        parcels = self.endpoint.queue.parcels
        parcels.take(len(parcels))
        self.endpoint.settle()
        self.endpoint.progress(10, 1, ROOM)
        for count, (topic, sent) in enumerate(self.endpoint.due(self.now)):
            assert count < MOST_PUBLISHED
            if topic.startswith(b"a/"):
                message = wire.read(wire.open_frame(sent))
                assert isinstance(message, Acknowledgement)


def test_conversation(data: bytes) -> None:
    """Take every turn of an input, and require the promises at its end."""
    conversation = Conversation(data[0] if data else 0)
    for part in split(data[1:])[:TURNS]:
        conversation.take(part[0] if part else Turn.TIME, part[1:])
    conversation.require()


# ---- inputs


def _load(data: bytes) -> Any:
    return [_loaded(part) for part in split(data)]


def _loaded(part: bytes) -> Any:
    turn, body = part[0], part[1:]
    if turn == Turn.MESSAGE:
        return [turn, MESSAGE.load(body)]
    return [turn, body.decode("latin-1").split("/")]


def _dump(value: Any) -> bytes:
    return join([written for turn in value if (written := _dumped(turn))])


def _dumped(value: Any) -> bytes:
    """Write a turn; one that has lost its structure is left out."""
    with suppress(Exception):
        turn, body = value
        if turn == Turn.MESSAGE:
            return bytes([turn]) + MESSAGE.dump(body)
        return bytes([turn]) + "/".join(map(str, body)).encode("latin-1", "replace")
    return b""


CONVERSATION = Structure(_load, _dump)


def conversations() -> list[bytes]:
    """Return conversations as honest clients have them, and some that lie, for each way."""
    messages = {name: unframed(wire.encode(one)) for name, one in from_actor(BAD).items()}
    hello, report, bye = (bytes([0]) + messages[name] for name in ("hello", "report", "bye"))
    parcels = [
        bytes([0]) + unframed(_parcel(number, base)) for number, base in ((1, 1), (2, 1), (4, 3))
    ]
    own = [_body(Turn.SUBSCRIBE, topic) for topic in _topics()]
    late = [_body(Turn.UNSUBSCRIBE, topic) for topic in _topics()]
    second, honest, again = _time(4), bytes([Turn.HONEST]), bytes([Turn.RECONNECT])
    stories = (
        [*own, hello, second, *parcels, honest, report, second, bye, *late],
        [hello, parcels[0], again, hello, parcels[0], parcels[2], second, honest, bye],
        [*own, *late, *own, again, *own, second, honest],
        [report, bye, report, hello, second, parcels[1], honest, second],
    )
    return [bytes([way]) + join(story) for way in range(len(WAYS)) for story in stories]


def _parcel(number: int, base: int) -> bytes:
    spec, (_, _, actor, incarnation) = specs()[0], BAD
    return a_frame(
        spec, parcel_of(spec), actor=actor, incarnation=incarnation, sequence=number, base=base
    )


def _topics() -> list[bytes]:
    return [
        topics.acknowledgement(*BAD[1:]),
        topics.beacon("default"),
        topics.weights("default"),
        topics.snapshot(*BAD[1:], 99),
    ]


def _body(turn: int, body: bytes) -> bytes:
    return bytes([turn]) + body


def _time(units: int) -> bytes:
    return bytes([Turn.TIME]) + units.to_bytes(2, "little")


TARGETS = (
    Target(
        "conversation",
        test_conversation,
        conversations,
        CONVERSATION,
        skip=1,  # the way
        never_refuses=True,
    ),
)
