"""The sockets of an actor at one address: one PUSH, one SUB, and one call that serves both.

All that depends on messages is in the policy clients, one for each policy that is looked for there.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import zmq

from farflung.actor.connection.policy_client import PolicyClient
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.diagnose import Diagnosis
from farflung.common.net.keys import ClientKeys
from farflung.common.net.sockets import Context
from farflung.common.process.log import once_every
from farflung.common.protocol import topics
from farflung.common.protocol.learner_tracker import SILENCE_S, Action
from farflung.common.protocol.messages import State
from farflung.common.protocol.outbox import Frame

log = logging.getLogger(__name__)

# Between two looks at the feed, where parcels leave faster than that: one look for each took a
# tenth of the data path.
LOOK_S = 0.0005
# At most in one look: a learner at line rate holds up neither environments nor a signal.
LOOK_MESSAGES = 256
LOOK_BYTES = 64 << 20
SEARCH_S = 5.0  # without any of our policies: then the others there are named
NAMED = 8  # of them at most
LAST_WORDS_MS = 400  # to send them: the process ends soon in any case
UNANSWERED = (
    "learner %s is up but does not answer actor %s. Does it refuse messages as `label`? "
    "Then the label in %s is not the one in its folder of allowed keys"
)


class Sockets:
    """The sockets of policy clients. They dial out, and recover when a learner returns."""

    def __init__(
        self,
        context: Context,
        address: Address,
        client: PolicyClient,
        clock: Callable[[], float] = time.monotonic,
        keys: ClientKeys | None = None,
    ) -> None:
        self.address = address
        self.client = client  # the first one
        self._clients = {client.policy.encode(): client}
        self._context, self._clock, self._keys = context, clock, keys
        self._subscribed: list[bytes] = []
        self._connected: set[str] = set()  # policies
        self._searches = False  # for the names of all policies here: none of ours is found
        self._others: set[str] = set()  # these policies
        self._look_at = float("-inf")
        self._silence = Diagnosis(address, keys)
        self._began_at = now = clock()
        client.ask(now)
        self._build(now)

    def add(self, client: PolicyClient) -> None:
        """Look for the learner of one more policy here."""
        now = self._clock()
        self._clients[client.policy.encode()] = client
        client.rebuilt(now)
        client.ask(now)

    @property
    def owes(self) -> bool:
        """Something is not acknowledged yet, by a learner that listens."""
        now = self._clock()
        clients = self._clients.values()
        return any(not client.outbox.idle and client.listens(now) for client in clients)

    def serves(self, client: PolicyClient) -> bool:
        """Return whether it carries the messages of this client."""
        return self._clients.get(client.policy.encode()) is client

    def remove(self, client: PolicyClient, reason: str) -> None:
        """Say goodbye for a policy, and look for its learner no longer."""
        client.bye(reason)
        client.drain_notices(self._push_frame)
        del self._clients[client.policy.encode()]

    def exchange(self, timeout_s: float = 0.0) -> None:
        """Receive what is there and send what may leave; first wait so long for a message.

        The feed is skipped if the last look at it was a moment ago.
        """
        if timeout_s:
            self._feed.poll(int(timeout_s * 1000))
        now = self._clock()
        if timeout_s or now >= self._look_at:
            self._look_at = now + LOOK_S
            self._look_after(now)
        self._send(now)

    def _look_after(self, now: float) -> None:
        """Receive what came, and do what that or the time asks for."""
        drained = self._receive(now)
        clients = self._clients.values()
        actions = {client: client.due(now, drained) for client in clients}
        silence = min((client.tracker.silence(now) for client in clients), default=0.0)
        known = any(client.tracker.run for client in clients)
        if (drained and self._silence.look(silence, known, now)) or is_dead(actions, now):
            log.warning("no answer from %s: connecting again", self.address, extra=once_every(30))
            self._drop()
            self._build(now)
            actions = dict.fromkeys(clients, Action.ASK)
        for client, action in actions.items():
            if action is Action.REBUILD:  # but others are heard here: its learner alone is away
                client.tracker.connected(now)
            if action is not Action.NOTHING:
                client.ask(now)
        self._searches = not known and now - self._began_at >= SEARCH_S
        if self._searches:
            self._name_others()
        self._subscribe()
        for client in clients:
            self._log_connection(client, now)

    def close(self, reason: str, patience_s: float) -> bool:
        """Send the rest, wait so long for its acknowledgement, and send the bye.

        Return whether everything was acknowledged.
        """
        clients, deadline = self._clients.values(), self._clock() + patience_s
        while self._clock() < deadline and self.owes:
            self.exchange(0.02)
        for client in clients:
            client.bye(reason)
        now = self._clock()
        self._send(now)
        listens = any(client.listens(now) for client in clients)
        self._push.close(linger=sockets.GOODBYE_MS if listens else 0)
        self._feed.close()
        return all(client.outbox.idle for client in clients)

    def last_words(self, text: str) -> None:
        """Tell the learner why this process ends: the last line of the text. For another thread."""
        with self._aside() as send:
            for client in list(self._clients.values()):
                client.problem("hangs", text)
                client.bye(text.splitlines()[-1])
                client.drain_notices(send)

    def hangs(self) -> None:
        """Report a step that hangs. For another thread, while the owner's cannot."""
        with self._aside() as send:
            for client in list(self._clients.values()):
                if (report := client.notices.aside()) is not None:
                    send(report)

    @contextmanager
    def _aside(self) -> Iterator[Callable[[Frame], bool]]:
        # A socket belongs to one thread, so this one has its own. Its context waits for it.
        def send(frame: Frame) -> bool:
            push.send(frame)
            return True

        with sockets.context() as context:
            push = sockets.experience_sender(context, self.address, keys=self._keys)
            push.set(zmq.SNDTIMEO, LAST_WORDS_MS)
            try:
                yield send
            finally:
                push.close(linger=LAST_WORDS_MS)

    def _build(self, now: float) -> None:
        self._subscribed = self._wanted
        self._feed = sockets.feed_subscriber(
            self._context, self.address, self._subscribed, keys=self._keys
        )
        self._push = sockets.experience_sender(self._context, self.address, keys=self._keys)
        for client in self._clients.values():
            client.rebuilt(now)

    @property
    def _wanted(self) -> list[bytes]:
        """The topics to be subscribed to, in byte order: those of snapshots come last."""
        wanted = [topic for client in self._clients.values() for topic in client.subscriptions]
        return sorted([*wanted, topics.beacon()] if self._searches else wanted)

    def _name_others(self) -> None:
        """Say which policies are here, if none of them is ours."""
        if self._others:
            ours = " or ".join(client.policy for client in self._clients.values())
            others = sorted(self._others)
            more = [f"{len(others) - NAMED:,} more"] if len(others) > NAMED else []
            log.warning(
                "no learner of policy %s at %s, which has %s: name one of them with --policy",
                *(ours, self.address, " and ".join([*others[:NAMED], *more])),
                extra=once_every(30),
            )
            self._others.clear()  # it may have gone by the next line

    def _drop(self) -> None:
        self._feed.close()
        self._push.close(linger=0)  # everything in it is still in the outbox

    def _receive(self, now: float) -> bool:
        """Read the feed, at most as much as a look may; return whether it was read to its end.

        Of several versions of the weights decode the newest only.
        """
        newest: dict[bytes, bytes] = {}
        messages = size = 0
        # To ask costs half as much as a failed receive, and nearly always there is nothing.
        while more := sockets.readable(self._feed):
            if messages == LOOK_MESSAGES or size >= LOOK_BYTES:
                break
            topic, *frames = self._feed.recv_multipart(zmq.NOBLOCK)
            frame = b"".join(frames)
            messages, size = messages + 1, size + len(frame)
            if topic.startswith(b"w/"):
                newest[topic] = frame
            else:
                self._deliver(topic, frame, now)
        for topic, frame in newest.items():
            self._deliver(topic, frame, now)
        return not more

    def _deliver(self, topic: bytes, frame: bytes, now: float) -> None:
        """Hand a message to the client of its policy, unless that has been removed."""
        policy = topic.split(b"/", 2)[1]
        if (client := self._clients.get(policy)) is not None:
            client.receive(topic, frame, now)
        elif self._searches and (other := topics.parse_policy(topic)) is not None:
            self._others.add(other)

    def _subscribe(self) -> None:
        """Subscribe to the topics that are wanted now, in byte order, and to no others."""
        wanted = self._wanted
        if wanted == self._subscribed:
            return
        for topic in wanted:
            if topic not in self._subscribed:
                self._feed.subscribe(topic)
        for topic in self._subscribed:
            if topic not in wanted:
                self._feed.unsubscribe(topic)
        self._subscribed = wanted

    def _send(self, now: float) -> None:
        for client in self._clients.values():
            client.drain(now, self._push_frame)

    def _push_frame(self, frame: Frame) -> bool:
        """Push a frame; return whether there was room for it."""
        try:
            self._push.send(frame, zmq.NOBLOCK, copy=len(frame) < sockets.COPY_BYTES)
        except zmq.Again:
            return False
        return True

    def _log_connection(self, client: PolicyClient, now: float) -> None:
        policy, learner = client.policy, "the learner"
        if len(self._clients) > 1:
            learner += f" of {policy}"
        connected = client.tracker.sends(now)
        if connected and policy not in self._connected:
            self._connected.add(policy)
            log.info("connected to %s at %s", learner, self.address)
        elif not connected and policy in self._connected:
            self._connected.remove(policy)
            log.warning("no message from %s at %s: waiting for it", learner, self.address)
        unanswered = client.joined is None and client.tracker.vain_asks >= 2
        if self._keys is not None and unanswered and client.state is State.RUN:
            log.warning(
                UNANSWERED, self.address, client.actor, self._keys.path, extra=once_every(30)
            )


def is_dead(actions: Mapping[PolicyClient, Action], now: float) -> bool:
    """Return whether a connection is to be made again, for the policies that ask for it.

    A silent learner behind a broker is no reason while another policy is heard through it.
    """
    dead = [client for client, action in actions.items() if action is Action.REBUILD]
    if not dead:
        return False
    heard = [client for client in actions if client.tracker.quiet_s(now) < SILENCE_S]
    return not heard or not set(dead).isdisjoint(heard)


def wait_for(pairs: Sequence[object], timeout_s: float) -> None:
    """Wait at most so long until one of them has a message; all others have none."""
    poller = zmq.Poller()
    for pair in pairs:
        if isinstance(pair, Sockets):
            poller.register(pair._feed, zmq.POLLIN)
    poller.poll(int(timeout_s * 1000))
