"""The sockets of an actor: one PUSH, one SUB, and one call that looks after both. Everything else is in the channel."""

import logging
import time
from collections.abc import Callable

import zmq

from actor.channel import Channel
from common import sockets
from common.address import Address
from common.keys import ClientKeys
from common.log import once_every
from common.membership import Action
from common.messages import State
from common.silence import Silence
from common.sockets import Context

log = logging.getLogger(__name__)

LOOK_S = 0.0005  # between two looks at the feed, where parcels leave faster than that: one for each took a tenth of the data path
PUMP_S = 0.005  # between two looks at the sockets while there is something else to do
WAIT_S = 0.1  # for something to hear while there is nothing else to do
GRACE_S = 3.0  # for the last acknowledgements, at the end
UNANSWERED = (
    "%s speaks, but does not answer %s: if it refuses messages as `label`, the label in %s is not the one in its folder of allowed keys"
)


class Link:
    """An actor's connection to the learner at an address. It dials out, and goes on by itself whenever the learner returns."""

    def __init__(
        self,
        context: Context,
        address: Address,
        channel: Channel,
        clock: Callable[[], float] = time.monotonic,
        keys: ClientKeys | None = None,
    ) -> None:
        self.address = address
        self.channel = channel
        self._context, self._clock, self._keys = context, clock, keys
        self._private: bytes | None = None  # as subscribed
        self._connected = False
        self._look_at = float("-inf")
        self._silence = Silence(address, keys)
        now = clock()
        channel.ask(now)
        self._build(now)

    def pump(self, timeout_s: float = 0.0) -> None:
        """Hear what there is, if the last look was not a moment ago, and send all that may go; first wait so long for something to hear."""
        if timeout_s:
            self._feed.poll(int(timeout_s * 1000))
        now = self._clock()
        if timeout_s or now >= self._look_at:
            self._look_at = now + LOOK_S
            self._look_after(now)
        self._send(now)

    def _look_after(self, now: float) -> None:
        """Hear what came, and do what that or the time asks for."""
        self._hear(now)
        action = self.channel.due(now)
        if self._silence.look(self.channel.membership.silence(now), bool(self.channel.membership.run), now):
            action = Action.REBUILD
        if action is Action.REBUILD:
            log.warning("no answer from %s: connecting anew", self.address, extra=once_every(30))
            self._drop()
            self._build(now)
        if action is not Action.NOTHING:
            self.channel.ask(now)
        self._subscribe()
        self._say_how_it_is(now)

    def close(self, reason: str, patience_s: float) -> bool:
        """Send what is left, wait so long for its acknowledgement, and say goodbye. Gives whether everything was acknowledged."""
        deadline = self._clock() + patience_s
        while not self.channel.outbox.idle and self._clock() < deadline and self.channel.listens(self._clock()):
            self.pump(0.02)
        self.channel.bye(reason)
        self._send(self._clock())
        self._push.close(linger=sockets.GOODBYE_MS if self.channel.listens(self._clock()) else 0)
        self._feed.close()
        return self.channel.outbox.idle

    def _build(self, now: float) -> None:
        self._private = self.channel.private
        self._feed = sockets.feed_subscriber(self._context, self.address, self.channel.subscriptions, keys=self._keys)
        self._push = sockets.experience_sender(self._context, self.address, keys=self._keys)
        self.channel.rebuilt(now)

    def _drop(self) -> None:
        self._feed.close()
        self._push.close(linger=0)  # everything in it is still in the outbox

    def _hear(self, now: float) -> None:
        """Read the feed to its end: of several versions of the weights only the newest is looked at."""
        newest: dict[bytes, bytes] = {}
        while sockets.readable(self._feed):  # half as dear as to be refused, and nearly always there is nothing
            topic, *frames = self._feed.recv_multipart(zmq.NOBLOCK)
            if topic.startswith(b"w/"):
                newest[topic] = b"".join(frames)
            else:
                self.channel.hear(topic, b"".join(frames), now)
        for topic, frame in newest.items():
            self.channel.hear(topic, frame, now)

    def _subscribe(self) -> None:
        """Ask the question that is due, and take back the one that was answered."""
        wanted = self.channel.private
        if wanted == self._private:
            return
        if wanted:
            self._feed.subscribe(wanted)
        if self._private:
            self._feed.unsubscribe(self._private)
        self._private = wanted

    def _send(self, now: float) -> None:
        while (frame := self.channel.next(now)) is not None:
            try:
                self._push.send(frame, zmq.NOBLOCK, copy=len(frame) < sockets.COPY_BYTES)
            except zmq.Again:
                return
            self.channel.sent(now)

    def _say_how_it_is(self, now: float) -> None:
        connected = self.channel.membership.sends(now)
        if connected and not self._connected:
            log.info("connected to the learner at %s", self.address)
        elif not connected and self._connected:
            log.warning("no word from the learner at %s: waiting for it", self.address)
        self._connected = connected
        unanswered = self.channel.joined is None and self.channel.membership.vain_asks >= 2
        if self._keys is not None and unanswered and self.channel.state is State.RUN:
            log.warning(UNANSWERED, self.address, self.channel.actor, self._keys.path, extra=once_every(30))
