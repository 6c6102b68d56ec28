"""The connection of a broker to one learner, or to a broker in front of it."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator

import zmq

from farflung.broker.relay import Backlog, UpstreamHealth, UpstreamStatus
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.diagnose import Diagnosis
from farflung.common.net.keys import ClientKeys
from farflung.common.net.sockets import Context, Held
from farflung.common.process.log import once_every

log = logging.getLogger(__name__)

FULL = "queue full"
SILENT = "upstream silent"
RECEIVED_MESSAGES = 1024  # in one go


class Upstream:
    """A PUSH with a queue in front of it, and an XSUB."""

    def __init__(
        self,
        context: Context,
        address: Address,
        capacity: int,
        topics: list[bytes],
        now: float,
        keys: ClientKeys | None = None,
    ) -> None:
        self.address = address
        self.health = UpstreamHealth(now)
        self.backlog: Backlog[Held] = Backlog(capacity)
        self._context, self._keys = context, keys
        self._dropped: Counter[str] = Counter()
        self._passed = self._passed_bytes = 0
        self._known = False  # it has published something
        self._silence = Diagnosis(address, keys)
        self._connect(topics)

    def offer(self, frame: zmq.Frame) -> None:
        """Send a frame, queue it behind those that wait, or drop it: its actor sends it again."""
        if not len(self.backlog) and self._send(frame):
            return
        if not self.backlog.put(sockets.hold(frame)):
            self._dropped[FULL] += 1
            log.warning(
                "%s takes less than actors send: messages are dropped, to be sent again",
                self.address,
                extra=once_every(30),
            )

    def flush(self, now: float) -> None:
        """Send queued frames until the socket takes no more."""
        while (frame := self.backlog.first()) is not None and self._send(frame):
            self.backlog.take()
            self.health.moved(now)
        if not len(self.backlog):
            self.health.moved(now)

    def receive(self, now: float) -> Iterator[tuple[bytes, Held]]:
        """Read the feed to its end, up to a bounded number of messages."""
        for _ in range(RECEIVED_MESSAGES):
            try:
                topic, *frames = self.feed.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            self.health.received(now)
            if not self._known:
                log.info("connected to the learner at %s", self.address)
            self._known = True
            if len(frames) == 1:
                yield topic.bytes, sockets.hold(frames[0])

    def subscribe(self, subscriptions: Iterable[bytes]) -> None:
        """Pass subscriptions and unsubscriptions on."""
        for frame in subscriptions:
            self.feed.send(frame)

    def due(self, now: float) -> str:
        """Return the reason to reconnect, if there is one."""
        if self._silence.look(self.health.silence(now), self._known, now):
            return "it admits this broker again"
        return self.health.due(now)

    def reconnect(self, topics: list[bytes], reason: str, now: float) -> None:
        """Replace both sockets and drop the queue: its frames are old, and outboxes have them."""
        log.warning("%s: %s, reconnecting", self.address, reason)
        self._dropped[SILENT] += self.backlog.clear()
        self.close(linger_ms=0)
        self._connect(topics)
        self.health.built(now)

    def status(self, policies: tuple[str, ...], now: float) -> UpstreamStatus:
        """Return the counters of this upstream."""
        return UpstreamStatus(
            address=str(self.address),
            policies=policies,
            silence_s=round(self.health.silence(now), 3),
            builds=self.health.builds,
            passed=self._passed,
            passed_bytes=self._passed_bytes,
            queued=len(self.backlog),
            queued_bytes=self.backlog.size,
            dropped=dict(self._dropped),
        )

    def close(self, linger_ms: int = sockets.GOODBYE_MS) -> None:
        """Close both sockets."""
        self.push.close(linger=linger_ms)
        self.feed.close(linger=0)

    def _connect(self, topics: list[bytes]) -> None:
        self.push = sockets.experience_sender(
            self._context, self.address, sockets.RELAY_MESSAGES, self._keys
        )
        self.feed = sockets.feed_relay(self._context, self.address, topics, keys=self._keys)

    def _send(self, frame: Held | zmq.Frame) -> bool:
        try:
            self.push.send(frame, zmq.NOBLOCK, copy=len(frame) < sockets.COPY_BYTES)
        except zmq.Again:
            return False
        self._passed += 1
        self._passed_bytes += len(frame)
        return True
