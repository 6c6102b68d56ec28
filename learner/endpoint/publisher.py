"""The outgoing side of a learner: each message when it is due. No sockets, no clock.

Weights, beacons, acknowledgements, snapshots and telemetry are states, never events.
"""

import logging
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version, Weights
from farflung.common.net.keys import ANY_CLIENT, Client, require_own_name
from farflung.common.protocol import tensors, topics, wire
from farflung.common.protocol.acknowledgements import ACTOR_BYTES, Key, grant
from farflung.common.protocol.messages import (
    Acknowledgement,
    Announcement,
    Beacon,
    Credit,
    State,
    Telemetry,
)
from farflung.common.protocol.roster import Member
from farflung.common.protocol.snapshots import Snapshots
from farflung.learner.endpoint.archives import Archives
from farflung.learner.endpoint.receiver import Receiver

log = logging.getLogger(__name__)

BEACON_S = 1.0
ANNOUNCE_S = 0.1  # between two announcements to all, however many ask
EVALUATOR = Credit(16, 1 << 20)  # results without rows do not wait for pacing
# Gradients do not either, and many of them at once would only be stale.
WORKER = Credit(2, ACTOR_BYTES)
NOTHING = Credit(0, 0)

Publication = tuple[bytes, bytes | bytearray]  # topic and frame


class Outlook(NamedTuple):
    """The newest figures of training."""

    room: int  # rows that may still be sent; 0 pauses collection
    steps: int
    updates: int


class Publisher:
    """The messages of one learner to its subscribers."""

    def __init__(
        self, spec: Spec, learner_id: int, epoch: int, receiver: Receiver, snapshots: Snapshots
    ) -> None:
        self.state = State.RUN
        self.newest = Version(epoch, 0)
        # Called with the place of an actor that plays rounds, before it is sent.
        self.on_place: Callable[[Member], None] = lambda member: None
        self._spec, self._learner_id = spec, learner_id
        self._receiver, self._snapshots = receiver, snapshots
        receiver.roster.on_succession = self._log_succession
        self._weights: bytes | bytearray = b""  # the newest, once there are any
        self._beacon_at = float("-inf")
        self._beacon_state: State | None = None  # the state in the last beacon
        self._announced_at = float("-inf")
        self._is_asked = False  # for an announcement to all
        self._queue: list[Publication] = []
        self.archives = Archives()

    def publish(self, weights: Weights) -> None:
        """Publish a version, the newest from now on."""
        self.newest = self._receiver.newest = weights.version
        self._weights = tensors.encode_weights(weights)
        self._snapshots.fit(len(self._weights))
        self._queue.append((topics.weights(self._spec.policy), self._weights))

    def publish_telemetry(self, document: str) -> None:
        """Publish figures."""
        telemetry = Telemetry(self._spec.run, self._spec.policy, self._learner_id, document)
        self._queue.append((topics.telemetry(self._spec.policy), wire.encode(telemetry)))

    def subscribed(self, topic: bytes, sender: Client = ANY_CLIENT) -> bool:
        """Return whether the feed agrees to a subscription.

        A shared topic must be of this policy, a private one also of an actor that the sender may
        speak for. One that asks for a snapshot will be answered.
        """
        policy = self._spec.policy
        private = topics.parse_private(topic)
        if private is None:
            self._is_asked |= topic != b"" and topics.announcement(policy).startswith(topic)
            return topics.is_shared_of(policy, topic)
        require_own_name(private.actor, sender)
        if private.policy != policy:
            return False
        if private.archived is not None:
            self.archives.ask(topic, private.archived)
        if private.nonce is not None:
            self._snapshots.ask(topic.decode(), sender.connection)
        return True

    def unsubscribed(self, topic: bytes, sender: Client = ANY_CLIENT) -> None:
        """Forget the question that a topic was."""
        private = topics.parse_private(topic)
        if private is not None and sender.may_speak_for(private.actor):
            self._snapshots.confirm(topic.decode(), sender.connection)
            self.archives.forget(topic)

    def hurry(self) -> None:
        """Let the next beacon be due now, and the acknowledgement of each actor with news."""
        self._beacon_at = float("-inf")
        self._receiver.acknowledgements.hurry()

    def due(self, outlook: Outlook, now: float) -> Iterator[Publication]:
        """Yield the messages that are due now."""
        yield from self._queue
        self._queue.clear()
        yield from self.archives.due()
        yield from self._due_announcement(now)
        yield from self._due_snapshots(now)
        # Before the beacon: an actor that learns of the end knows by then what was taken.
        yield from self._due_acknowledgements(outlook, now)
        yield from self._due_beacon(outlook, now)

    def _due_announcement(self, now: float) -> Iterator[Publication]:
        if self._is_asked and now - self._announced_at >= ANNOUNCE_S:
            self._announced_at, self._is_asked = now, False
            yield topics.announcement(self._spec.policy), self._announcement()

    def _due_snapshots(self, now: float) -> Iterator[Publication]:
        for _ in range(self._snapshots.at_once if self._weights else 0):
            if (topic := self._snapshots.next(now)) is None:
                return
            asked = topics.parse_private(topic.encode())
            assert asked is not None
            member = self._place(asked, now)
            yield topic.encode(), self._announcement(member.index, member.start)
            yield topic.encode(), self._weights

    def _place(self, asked: topics.Private, now: float) -> Member:
        """Return the place of an actor; those below the number of a round's actors are players'.

        In rounds of several policies an actor has one index: the learner of the world's first
        policy hands it out, or agrees to one that an actor has already, and the others follow.
        """
        rounds, roster = self._spec.rounds, self._receiver.roster
        who = asked.actor, asked.incarnation
        if rounds is None:
            return roster.join(*who, now)
        policy, wish = self._spec.policy, asked.wish
        leads = next(iter(self._spec.world.seats), policy) == policy
        spare = asked.evaluates or (wish >= rounds.actors and not leads)
        if wish >= 0 and not (leads and wish >= rounds.actors):
            member = roster.join_at(*who, min(wish, rounds.actors), now)
        else:
            member = roster.meet(*who, now)
        if member.index < 0 and (spare or leads or wish == topics.FREE):
            member = roster.join(*who, now, rounds.actors if spare else 0)
        if 0 <= member.index < rounds.actors:
            self.on_place(member)
        return member

    def _log_succession(self, former: Member, member: Member) -> None:
        """Log that the place of an actor in the rounds went to another start or actor."""
        rounds = self._spec.rounds
        if rounds is not None and member.index < rounds.actors:
            log.warning(
                "%s (actor %d.%d) ended in round %d: %s (actor %d.%d) plays it from its beginning",
                *(former.actor, former.index, former.start, self.newest.number),
                *(member.actor, member.index, member.start),
            )

    def _due_beacon(self, outlook: Outlook, now: float) -> Iterator[Publication]:
        """Yield the state that all actors share, every second and when it changes."""
        if self.state is self._beacon_state and now - self._beacon_at < BEACON_S:
            return
        self._beacon_at, self._beacon_state = now, self.state
        run, policy = self._spec.run, self._spec.policy
        figures = outlook.steps, outlook.updates
        beacon = Beacon(run, policy, self._learner_id, self.newest, *figures, self.state)
        yield topics.beacon(policy), wire.encode(beacon)

    def _due_acknowledgements(self, outlook: Outlook, now: float) -> Iterator[Publication]:
        receiver, spec = self._receiver, self._spec
        room, sharers = _rounded_down(outlook.room), _rounded_up(receiver.names.sharers(now))
        least = grant(room, sharers, math.inf)  # also before a name has a share

        def credit(key: Key) -> Credit:
            if receiver.allowances.withholds(key, now):
                return NOTHING
            if receiver.inboxes.gradients.knows(*key):
                return WORKER
            if receiver.names.has_share(key):
                return grant(self._shared(key, room), sharers, receiver.names.usual_rows(key))
            judges = receiver.records.evaluates(key) and not receiver.names.has_rows(key)
            return EVALUATOR if judges else least

        epoch = self.newest.epoch
        due = receiver.acknowledgements.due(now, credit, receiver.names.has_share)
        for (actor, incarnation), granted in due:
            receiver.allowances.grant((actor, incarnation), granted.messages)
            highest, missing, refused = receiver.inboxes.received(actor, incarnation)
            message = Acknowledgement(
                run=spec.run,
                policy=spec.policy,
                actor=actor,
                incarnation=incarnation,
                learner_id=self._learner_id,
                epoch=epoch,
                highest=highest,
                missing=missing,
                refused=refused,
                credit=granted,
            )
            yield topics.acknowledgement(spec.policy, actor, incarnation), wire.encode(message)

    def _shared(self, key: Key, room: int) -> int:
        """Return the part of a room that the peer of an incarnation has space for.

        A round is granted as a whole.
        """
        peer = self._receiver.names.peer_of(key)
        if peer is None or self._spec.rounds is not None:
            return room
        return min(room, _rounded_down(self._receiver.buffer.spare_rows(peer)))

    def _announcement(self, index: int = -1, start: int = -1) -> bytearray:
        return wire.encode(
            Announcement(self._spec, self._learner_id, self.newest.epoch, index, start)
        )


def _rounded_down(rows: int) -> int:
    """Return the next lower power of two, so that credit does not change with every row."""
    return 1 << (rows.bit_length() - 1) if rows > 0 else 0


def _rounded_up(actors: int) -> int:
    """Return the next number of three binary digits, so that not every joiner changes credit."""
    zeros = max(0, actors.bit_length() - 3)
    return -(-actors >> zeros) << zeros
