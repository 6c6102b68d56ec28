"""The sockets of a broker and the loop over them.

To actors it looks like a learner, to learners like an actor.
"""

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence

import zmq

from farflung.broker.passing import Passing
from farflung.broker.relay import POLICIES, BrokerStatus, Routes, Subscriptions
from farflung.broker.upstream import Upstream
from farflung.common.data.fields import draw_identity
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.gate import Gate
from farflung.common.net.keys import Client, ClientKeys, ServerKeys, require_own_name
from farflung.common.net.listener import Listener, require_allowed
from farflung.common.net.rights import require_right
from farflung.common.net.shares import BROKER
from farflung.common.net.sockets import Context, Held
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.process.lifecycle import Stop
from farflung.common.process.log import once_every
from farflung.common.process.memory import resident_bytes
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import Telemetry
from farflung.common.protocol.names import Names
from farflung.common.protocol.packing import to_plain
from farflung.common.protocol.wire import Kind

log = logging.getLogger(__name__)

POLL_MS = 1000
PASSING_MS = 20  # while something waits to be passed upstream
DRAIN_MESSAGES = 256  # in one go, so that acknowledgements are never late
STATUS_S = 1.0
UNKNOWN = "unknown policy"
NAME_CHARACTERS = 160  # of an actor's name; no longer one is right
WORDS = (Kind.HELLO, Kind.REPORT, Kind.COMMAND, Kind.BYE)


class Broker:
    """One address in front of several learners.

    It keeps nothing that matters: outboxes send again what is lost with it.
    """

    def __init__(
        self,
        context: Context,
        address: Address,
        learners: Sequence[Address],
        capacity: int,  # bytes queued for each upstream
        name: str,
        clock: Callable[[], float] = time.monotonic,
        keys: ServerKeys | None = None,
        upstream_keys: ClientKeys | None = None,
        largest: int = wire.MAX_MESSAGE_BYTES,  # message that actors and workers may send
    ) -> None:
        self._front = Listener(context, address, 1, sockets.RELAY_MESSAGES, keys, largest)
        self.address = self._front.address
        self._name, self._identity, self._clock = name, draw_identity(), clock
        self._topic = topics.broker(name)
        self._routes, self._subscriptions = Routes(), Subscriptions()
        self._names = Names()
        # Who sent rows in this burst, and the upstream that takes them: by policy and actor.
        self._heard: dict[tuple[str, str], tuple[Client, int]] = {}
        self._started_at = self._status_at = now = clock()
        self._passing = Passing(self._subscriptions, now)
        self._gate = Gate(self._front, self, BROKER, now)
        wanted = self._subscriptions.topics
        self._upstreams = [
            Upstream(context, learner, capacity, wanted, now, upstream_keys) for learner in learners
        ]
        self._received = self._published = self._largest = 0
        self._refused: Counter[str] = Counter()

    def run(self, stop: Stop) -> None:
        """Relay until `stop` is set."""
        while not stop:
            ready = self._wait(stop)
            now = self._clock()
            self._gate.receive(now)
            self._receive_upstreams(ready, now)
            self._pass_on(now)
            if self._front.pull in ready:
                self._receive_experience()
            else:
                self._front.authenticator.watch.drained += 1
            self._look_after(now)

    def status(self, now: float) -> BrokerStatus:
        """Return the counters, with those of each upstream."""
        return BrokerStatus(
            broker=self._name,
            seconds=round(now - self._started_at, 3),
            received=self._received,
            refused=dict(self._refused),
            feed_messages=self._published,
            subscriptions=len(self._subscriptions),
            actors=self._subscriptions.actors,
            memory=resident_bytes().total,
            upstreams=tuple(
                upstream.status(self._routes.of(index), now)
                for index, upstream in enumerate(self._upstreams)
            ),
        )

    def close(self) -> None:
        """Send what can leave at once, and close every socket."""
        for upstream in self._upstreams:
            upstream.flush(self._clock())
            upstream.close()
        self._front.close(linger_ms=0)

    def _wait(self, stop: Stop) -> set[object]:
        """Wait for a message, room upstream, or the next round; return the ready sockets."""
        wanted: list[tuple[Stop | sockets.Socket, int]] = [(stop, zmq.POLLIN)]
        wanted += [(self._front.pull, zmq.POLLIN), (self._front.feed, zmq.POLLIN)]
        wanted += [(upstream.feed, zmq.POLLIN) for upstream in self._upstreams]
        wanted += [
            (upstream.push, zmq.POLLOUT) for upstream in self._upstreams if len(upstream.backlog)
        ]
        patience_ms = PASSING_MS if len(self._passing) else POLL_MS
        return {socket for socket, _ in zmq.zmq_poll(wanted, patience_ms)}

    # ---- what the gate asks

    def subscribed(self, topic: bytes, sender: Client) -> bool:
        """Return whether a client may have a topic, which is then to be passed upstream."""
        private = topics.parse_private(topic)
        if private is not None:
            require_own_name(private.actor, sender)
        if not topics.is_allowed(topic):
            return False
        self._subscriptions.add(topic, sender.connection)
        asks = private is not None and private.nonce is not None and self._serves(private.policy)
        self._passing.add(topic, sender.connection, asks)
        return True

    def unsubscribed(self, topic: bytes, sender: Client) -> None:
        """Take back a subscription."""
        self._subscriptions.remove(topic, sender.connection)
        self._passing.remove(topic, sender.connection)

    def is_known(self, topic: bytes) -> bool:
        """Return False: a broker knows no actors."""
        return False

    def refuse(self, refusal: Refused) -> None:
        """Count a refusal."""
        self._refused[refusal.reason] += 1
        log.warning("a message is not passed on (%s)", refusal, extra=once_every(30))

    # ----

    def _serves(self, policy: str) -> bool:
        """Return whether a question about a policy will be answered."""
        return self._routes.find(policy) is not None

    def _pass_on(self, now: float) -> None:
        """Pass subscriptions upstream, at the pace that an upstream takes from one connection."""
        while frames := self._passing.next(now):
            for upstream in self._upstreams:
                upstream.subscribe(frames)

    def _settle(self, topic: bytes, frame: Held) -> None:
        """Withdraw a question when its answer came, so that the next one can be asked."""
        content = frame if isinstance(frame, bytes) else frame.buffer
        if topic.startswith(b"z/") and wire.kind_of(content) == wire.Kind.WEIGHTS:
            self._passing.questions.confirm(topic.decode())
            self._subscriptions.withdraw(topic)

    def _receive_upstreams(self, ready: set[object], now: float) -> None:
        for index, upstream in enumerate(self._upstreams):
            for topic, frame in upstream.receive(now) if upstream.feed in ready else ():
                self._route_by(topic, index, now)
                self._publish(topic, frame)
                self._settle(topic, frame)

    def _route_by(self, topic: bytes, index: int, now: float) -> None:
        """Take from a topic which policy an upstream serves."""
        if topic == self._topic:
            raise ConfigurationError(
                f"{self._upstreams[index].address} leads back to this broker, or to another that "
                f"is called {self._name}: brokers form no circles, and each has its own --name"
            )
        policy, address = topics.parse_policy(topic), self._upstreams[index].address
        if policy is None:
            return
        if not self._routes.has_room(policy, index, now):
            log.warning(
                "%s publishes about more than %d policies: %s is not served",
                *(address, POLICIES, policy),
                extra=once_every(30),
            )
        elif not self._routes.claim(policy, index, now):
            log.warning(
                "%s trains policy %s too: the other one gets its trajectories",
                address,
                policy,
                extra=once_every(30),
            )

    def _publish(self, topic: bytes, frame: Held) -> None:
        if len(frame) > self._largest:
            self._largest = len(frame)
            self._front.note_size(self._largest)
            self._passing.questions.fit(self._largest)
        self._published += 1
        feed = self._front.feed
        # else libzmq looks at a pipe's state late and drops for a subscriber that is idle
        feed.get(zmq.EVENTS)
        feed.send_multipart((topic, frame), copy=len(frame) < sockets.COPY_BYTES)

    def _receive_experience(self) -> None:
        """Drain the front, even if the upstreams are full."""
        self._heard.clear()
        for _ in range(DRAIN_MESSAGES):
            try:
                frame = self._front.pull.recv(zmq.NOBLOCK, copy=False)
                self._received += 1
                self._upstreams[self._route(frame)].offer(frame)
            except zmq.Again:
                self._front.authenticator.watch.drained += 1
                return
            except Refused as refusal:
                self.refuse(refusal)

    def _route(self, frame: zmq.Frame) -> int:
        """Return the upstream that serves the policy of a message."""
        if frame.more:
            while self._front.pull.recv(copy=False).more:
                pass
            raise Refused("parts", "it has more than one")
        view = frame.buffer
        kind, (policy, actor) = wire.kind_of(view), wire.peek(view)
        found, has_rows = self._front.sender(frame), kind not in WORDS and kind != Kind.SPANS
        if has_rows and found is not None:
            known, upstream = self._heard.get((policy, actor), (None, 0))
            if known is found:
                return upstream
        sender, now = require_allowed(actor, found), self._clock()
        require_right(sender, steers=kind == Kind.COMMAND)
        key = actor[:NAME_CHARACTERS], 0  # incarnations are not read here
        if kind in WORDS:
            self._names.spend_word(sender, now, len(frame))
        self._names.note_message(sender, key, now)
        if has_rows:
            self._names.note_parcel(key, 0)
        route = self._routes.find(policy)
        if route is None:
            raise Refused(UNKNOWN, "no upstream publishes about it yet")
        if has_rows:
            self._heard[policy, actor] = sender, route
        return route

    def _look_after(self, now: float) -> None:
        if self._front.look_after(now):
            self._gate.reset(now)  # clients that come back subscribe again
        for upstream in self._upstreams:
            upstream.flush(now)
            if reason := upstream.due(now):
                upstream.reconnect(self._subscriptions.topics, reason, now)
        if now - self._status_at >= STATUS_S:
            self._status_at = now
            document = json.dumps(to_plain(self.status(now)))
            self._publish(
                self._topic, bytes(wire.encode(Telemetry("", "", self._identity, document)))
            )
