"""The sockets of an actor: one PUSH, one SUB, and one call that serves both.

All that depends on messages is in the policy client.
"""

import logging
import time
from collections.abc import Callable

import zmq

from farflung.actor.connection.policy_client import PolicyClient
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.diagnose import Diagnosis
from farflung.common.net.keys import ClientKeys
from farflung.common.net.sockets import Context
from farflung.common.process.log import once_every
from farflung.common.protocol.learner_tracker import Action
from farflung.common.protocol.messages import State
from farflung.common.protocol.outbox import Frame

log = logging.getLogger(__name__)

# Between two looks at the feed, where parcels leave faster than that: one look for each took a
# tenth of the data path.
LOOK_S = 0.0005
# At most in one look: a learner at line rate holds up neither environments nor a signal.
LOOK_MESSAGES = 256
LOOK_BYTES = 64 << 20
LAST_WORDS_MS = 400  # to send them: the process ends soon in any case
UNANSWERED = (
    "learner %s is up but does not answer actor %s. Does it refuse messages as `label`? "
    "Then the label in %s is not the one in its folder of allowed keys"
)


class Sockets:
    """The sockets of a policy client. They dial out, and recover when the learner returns."""

    def __init__(
        self,
        context: Context,
        address: Address,
        client: PolicyClient,
        clock: Callable[[], float] = time.monotonic,
        keys: ClientKeys | None = None,
    ) -> None:
        self.address = address
        self.client = client
        self._context, self._clock, self._keys = context, clock, keys
        self._subscribed: list[bytes] = []
        self._connected = False
        self._look_at = float("-inf")
        self._silence = Diagnosis(address, keys)
        now = clock()
        client.ask(now)
        self._build(now)

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
        action = self.client.due(now, drained)
        if drained and self._silence.look(
            self.client.tracker.silence(now), bool(self.client.tracker.run), now
        ):
            action = Action.REBUILD
        if action is Action.REBUILD:
            log.warning("no answer from %s: connecting again", self.address, extra=once_every(30))
            self._drop()
            self._build(now)
        if action is not Action.NOTHING:
            self.client.ask(now)
        self._subscribe()
        self._log_connection(now)

    def close(self, reason: str, patience_s: float) -> bool:
        """Send the rest, wait so long for its acknowledgement, and send the bye.

        Return whether everything was acknowledged.
        """
        deadline = self._clock() + patience_s
        while (
            not self.client.outbox.idle
            and self._clock() < deadline
            and self.client.listens(self._clock())
        ):
            self.exchange(0.02)
        self.client.bye(reason)
        self._send(self._clock())
        self._push.close(linger=sockets.GOODBYE_MS if self.client.listens(self._clock()) else 0)
        self._feed.close()
        return self.client.outbox.idle

    def last_words(self, text: str) -> None:
        """Tell the learner why this process ends. For another thread, while the owner's hangs.

        The last line of the text is the reason. A socket belongs to one thread, so this has one of
        its own. Its context waits for it.
        """

        def send(frame: Frame) -> bool:
            push.send(frame)
            return True

        with sockets.context() as context:
            push = sockets.experience_sender(context, self.address, keys=self._keys)
            push.set(zmq.SNDTIMEO, LAST_WORDS_MS)
            try:
                self.client.problem("hangs", text)
                self.client.bye(text.splitlines()[-1])
                self.client.drain_notices(send)
            finally:
                push.close(linger=LAST_WORDS_MS)

    def _build(self, now: float) -> None:
        self._subscribed = self.client.subscriptions
        self._feed = sockets.feed_subscriber(
            self._context, self.address, self._subscribed, keys=self._keys
        )
        self._push = sockets.experience_sender(self._context, self.address, keys=self._keys)
        self.client.rebuilt(now)

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
                self.client.receive(topic, frame, now)
        for topic, frame in newest.items():
            self.client.receive(topic, frame, now)
        return not more

    def _subscribe(self) -> None:
        """Subscribe to the topics that are wanted now, in byte order, and to no others."""
        wanted = self.client.subscriptions
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
        self.client.drain(now, self._push_frame)

    def _push_frame(self, frame: Frame) -> bool:
        """Push a frame; return whether there was room for it."""
        try:
            self._push.send(frame, zmq.NOBLOCK, copy=len(frame) < sockets.COPY_BYTES)
        except zmq.Again:
            return False
        return True

    def _log_connection(self, now: float) -> None:
        connected = self.client.tracker.sends(now)
        if connected and not self._connected:
            log.info("connected to the learner at %s", self.address)
        elif not connected and self._connected:
            log.warning("no message from the learner at %s: waiting for it", self.address)
        self._connected = connected
        unanswered = self.client.joined is None and self.client.tracker.vain_asks >= 2
        if self._keys is not None and unanswered and self.client.state is State.RUN:
            log.warning(
                UNANSWERED, self.address, self.client.actor, self._keys.path, extra=once_every(30)
            )
