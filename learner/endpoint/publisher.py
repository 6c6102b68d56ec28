"""What goes out: weights, beacons, snapshots and telemetry, each when it is due. It says states, never events. No sockets, no clock."""

from collections.abc import Iterator
from typing import NamedTuple

from farflung.common.data.spec import Spec
from farflung.common.data.version import Version
from farflung.common.data.weights import Weights
from farflung.common.net.keys import ANYBODY, Client, require_own_name
from farflung.common.protocol import tensors, topics, wire
from farflung.common.protocol.credit import grant
from farflung.common.protocol.messages import Announcement, Beacon, Credit, State, Telemetry
from farflung.common.protocol.snapshots import Snapshots
from farflung.learner.endpoint.receiver import Receiver

BEACON_S = 1.0  # everybody's line
ACKNOWLEDGE_S = (
    0.01  # between two beacons of what changed, or a millisecond for each actor if that is longer
)
EVALUATOR = Credit(16, 1 << 20)  # results without rows: pacing has no say

Said = tuple[bytes, bytes | bytearray]  # topic and frame


class Outlook(NamedTuple):
    """What training last said of itself."""

    room: int  # rows that may still be sent; 0 pauses collection
    steps: int
    updates: int


class Publisher:
    """The voice of one learner."""

    def __init__(
        self, spec: Spec, learner_id: int, epoch: int, receiver: Receiver, snapshots: Snapshots
    ) -> None:
        self.state = State.RUN
        self.newest = Version(epoch, 0)
        self._spec, self._learner_id, self._receiver, self._snapshots = (
            spec,
            learner_id,
            receiver,
            snapshots,
        )
        self._frame: bytes | bytearray = b""  # of the newest weights, once there are any
        self._beacon_at = self._line_at = float("-inf")
        self._queue: list[Said] = []

    def publish(self, weights: Weights) -> None:
        """The newest version, from now on."""
        self.newest = weights.version
        self._frame = tensors.encode_weights(weights)
        self._snapshots.fit(len(self._frame))
        self._queue.append((topics.weights(self._spec.policy), self._frame))

    def tell(self, document: str) -> None:
        """Figures for whoever watches."""
        telemetry = Telemetry(self._spec.run, self._spec.policy, self._learner_id, document)
        self._queue.append((topics.telemetry(self._spec.policy), wire.encode(telemetry)))

    def subscribed(self, topic: bytes, sender: Client = ANYBODY) -> bool:
        """Whether somebody may hear this topic; a private one is a question that will be answered, if the name in it is the asker's."""
        private = topics.parse_private(topic)
        if private is not None:
            require_own_name(private.actor, sender)
            return private.policy == self._spec.policy and self._snapshots.ask(topic.decode())
        if topic and topics.announcement(self._spec.policy).startswith(topic):
            self._queue.append((topics.announcement(self._spec.policy), self._announcement()))
        return topics.is_allowed(topic)

    def unsubscribed(self, topic: bytes, sender: Client = ANYBODY) -> None:
        """Nobody waits there any more."""
        private = topics.parse_private(topic)
        if private is not None and sender.may_speak_for(private.actor):
            self._snapshots.confirm(topic.decode())

    def hurry(self) -> None:
        """The next beacon is due now, with everybody's line."""
        self._beacon_at = float("-inf")

    def due(self, outlook: Outlook, now: float) -> Iterator[Said]:
        """What is to be said now."""
        yield from self._queue
        self._queue.clear()
        yield from self._snapshot(now)
        yield from self._beacon(outlook, now)

    def _snapshot(self, now: float) -> Iterator[Said]:
        while self._frame and (topic := self._snapshots.next(now)) is not None:
            asked = topics.parse_private(topic.encode())
            assert asked is not None
            member = self._receiver.roster.join(asked.actor, asked.incarnation, now)
            yield topic.encode(), self._announcement(member.index, member.start)
            yield topic.encode(), self._frame

    def _beacon(self, outlook: Outlook, now: float) -> Iterator[Said]:
        roster = self._receiver.roster
        present = roster.present(now)
        everyone = now - self._beacon_at >= BEACON_S
        if not everyone and now - self._line_at < max(ACKNOWLEDGE_S, present / 1000):
            return
        usual = grant(_rounded(outlook.room), present, self._receiver.usual_rows)
        lines = self._receiver.inbox.lines(
            now, lambda actor, _: EVALUATOR if self._evaluates(actor) else usual, everyone=everyone
        )
        if not everyone and not lines:
            return
        self._line_at = now
        if everyone:
            self._beacon_at = now
        spec, newest = self._spec, self.newest
        beacon = Beacon(
            spec.run,
            spec.policy,
            self._learner_id,
            newest,
            outlook.steps,
            outlook.updates,
            self.state,
            lines,
        )
        yield topics.beacon(spec.policy), wire.encode(beacon)

    def _evaluates(self, actor: str) -> bool:
        seen = self._receiver.seen.get(actor)
        return seen is not None and seen.evaluates

    def _announcement(self, index: int = -1, start: int = -1) -> bytearray:
        return wire.encode(
            Announcement(self._spec, self._learner_id, self.newest.epoch, index, start)
        )


def _rounded(rows: int) -> int:
    """Down to a power of two: credit that moves by a row need not be told to everybody."""
    return 1 << (rows.bit_length() - 1) if rows > 0 else 0
