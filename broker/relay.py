"""The decisions of a broker: routes, queue limits, subscriptions upstream, and when to reconnect.

It has no sockets and no clock.
"""

from collections import Counter, deque
from collections.abc import Sized
from dataclasses import dataclass
from typing import Generic, TypeVar

from farflung.common.protocol import topics
from farflung.common.protocol.learner_tracker import DOUBLINGS, SILENCE_S

Frame = TypeVar("Frame", bound=Sized)

# Subscriptions of a broker itself: beacons and announcements name the policy that an upstream
# serves (an announcement comes first), and the status of a broker above shows that it is alive.
OWN = (topics.beacon(), topics.announcement(), topics.broker())
OURS = 0  # in the place of a connection
POLICIES = 256  # of one upstream
SUBSCRIBE, UNSUBSCRIBE = b"\x01", b"\x00"


class Routes:
    """The upstream of each policy: the one that publishes about it."""

    def __init__(self) -> None:
        # upstream, and the time when it last published about the policy
        self._claims: dict[str, tuple[int, float]] = {}

    def claim(self, policy: str, upstream: int, now: float) -> bool:
        """Route a policy to an upstream that published about it.

        False: another upstream has it, and keeps it until it falls silent.
        """
        holder, claimed_at = self._claims.get(policy, (upstream, now))
        if holder != upstream and now - claimed_at < SILENCE_S:
            return False
        self._claims[policy] = upstream, now
        return True

    def has_room(self, policy: str, upstream: int, now: float) -> bool:
        """Return whether an upstream may have a policy; of too many a silent one makes room."""
        if policy in self._claims:
            return True
        own = {one: at for one, (holder, at) in self._claims.items() if holder == upstream}
        if len(own) < POLICIES:
            return True
        oldest = min(own, key=own.__getitem__)
        is_silent = now - own[oldest] >= SILENCE_S
        if is_silent:
            del self._claims[oldest]
        return is_silent

    def find(self, policy: str) -> int | None:
        """Return the upstream that serves this policy."""
        claim = self._claims.get(policy)
        return None if claim is None else claim[0]

    def of(self, upstream: int) -> tuple[str, ...]:
        """Return the policies that an upstream serves."""
        return tuple(
            sorted(policy for policy, (holder, _) in self._claims.items() if holder == upstream)
        )


class Backlog(Generic[Frame]):
    """Frames that one upstream has not taken yet, bounded in bytes.

    A frame that does not fit is not kept: an outbox still has it.
    """

    def __init__(self, capacity: int) -> None:
        self.size = 0  # bytes
        self._capacity = capacity
        self._frames: deque[Frame] = deque()

    def __len__(self) -> int:
        return len(self._frames)

    def put(self, frame: Frame) -> bool:
        """Take a frame if it fits; one always does."""
        if self._frames and self.size + len(frame) > self._capacity:
            return False
        self._frames.append(frame)
        self.size += len(frame)
        return True

    def first(self) -> Frame | None:
        """Return the first frame and keep it in the queue."""
        return self._frames[0] if self._frames else None

    def take(self) -> Frame:
        """Remove and return the first frame."""
        frame = self._frames.popleft()
        self.size -= len(frame)
        return frame

    def clear(self) -> int:
        """Drop all frames; return their number."""
        count = len(self._frames)
        self._frames.clear()
        self.size = 0
        return count


class Subscriptions:
    """The topics subscribed at the front, and those that stand upstream for them.

    Each topic is passed on once, except that one that asks for an answer is passed on for every
    subscriber. A connection counts once for each topic, and takes back only its own.
    """

    def __init__(self) -> None:
        self._subscribers: dict[bytes, set[int]] = {topic: {OURS} for topic in OWN}
        self._passed = set(OWN)  # those that stand upstream
        self._leaving: dict[bytes, None] = {}  # those among them that nothing here needs any more
        self._actors: Counter[bytes] = Counter()  # topics of acknowledgements, by actor

    @property
    def topics(self) -> list[bytes]:
        """Return the topics of a new connection upstream, in byte order: private ones last."""
        return sorted(self._passed.difference(self._leaving))

    def __len__(self) -> int:
        return len(self._subscribers)

    @property
    def actors(self) -> int:
        """Return how many actors wait for acknowledgements here."""
        return len(self._actors)

    @property
    def leaving(self) -> int:
        """Return how many topics are still to be withdrawn upstream."""
        return len(self._leaving)

    def add(self, topic: bytes, connection: int) -> None:
        """Add a subscriber."""
        if topic not in self._subscribers and (actor := _actor(topic)):
            self._actors[actor] += 1
        self._subscribers.setdefault(topic, set()).add(connection)

    def pass_on(self, topic: bytes) -> tuple[bytes, ...]:
        """Return what to pass upstream for a new subscriber, or for one that asks again."""
        if topic not in self._subscribers:
            return ()  # it has gone meanwhile
        self._leaving.pop(topic, None)
        if topic not in self._passed:
            self._passed.add(topic)
            return (SUBSCRIBE + topic,)
        # the answer comes upon the subscription itself: ask again for the new subscriber
        asks = topic.startswith((b"s/", b"z/"))
        return (UNSUBSCRIBE + topic, SUBSCRIBE + topic) if asks else ()

    def withdraw(self, topic: bytes) -> None:
        """Note that a question was answered, or that a topic has no subscriber left."""
        if topic in self._passed:
            self._leaving[topic] = None

    def remove(self, topic: bytes, connection: int) -> None:
        """Remove a subscriber."""
        subscribers = self._subscribers.get(topic, set())
        if connection not in subscribers:
            return  # it never subscribed
        subscribers.remove(connection)
        if not subscribers:
            del self._subscribers[topic]
            if actor := _actor(topic):
                self._actors[actor] -= 1
                if not self._actors[actor]:
                    del self._actors[actor]
            self.withdraw(topic)

    def leave(self) -> tuple[bytes, ...]:
        """Return the unsubscription to pass upstream that has waited longest, if there is one."""
        if not self._leaving:
            return ()
        topic = next(iter(self._leaving))
        del self._leaving[topic]
        self._passed.remove(topic)
        return (UNSUBSCRIBE + topic,)


def _actor(topic: bytes) -> bytes:
    """Return the actor that waits for acknowledgements under a topic; nothing for another one."""
    if not topic.startswith(topics.acknowledgements()):
        return b""
    _, _, rest = topic.split(b"/", 2)
    return rest.rpartition(b"/")[0]


class UpstreamHealth:
    """The signs of life of an upstream, and from them the time to replace its sockets.

    That is after 8 s of silence, then 16, then 32, and when the queue has not moved for 8 s.
    """

    def __init__(self, now: float) -> None:
        self.builds = 0
        self._attempts = 0  # in vain
        self._received_at = now
        self.built(now)

    def built(self, now: float) -> None:
        """Note that the sockets were made."""
        self.builds += 1
        self._attempts += 1
        self._built_at = self._moved_at = now

    def received(self, now: float) -> None:
        """Note that a message came on its feed."""
        self._received_at = now
        self._attempts = 1

    def moved(self, now: float) -> None:
        """Note that it took a frame, or that its queue is empty."""
        self._moved_at = now

    def silence(self, now: float) -> float:
        """Return the seconds since its last message."""
        return now - self._received_at

    def due(self, now: float) -> str:
        """Return the reason to reconnect, if there is one.

        Call it after the feed was read to its end: unread messages are no silence.
        """
        patience_s = SILENCE_S * (1 << min(self._attempts - 1, DOUBLINGS))
        if now - max(self._received_at, self._built_at) >= patience_s:
            return f"nothing was received for {now - self._received_at:.0f} s"
        return (
            f"nothing was taken for {now - self._moved_at:.0f} s"
            if now - self._moved_at >= SILENCE_S
            else ""
        )


@dataclass(frozen=True, slots=True)
class UpstreamStatus:
    """The messages for one upstream: each was passed, is queued, or was dropped under a reason."""

    address: str
    policies: tuple[str, ...]
    silence_s: float
    builds: int  # how often its sockets were made
    passed: int
    passed_bytes: int
    queued: int
    queued_bytes: int
    dropped: dict[str, int]


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """The published status of a broker.

    received = passed + queued + dropped at the upstreams + refused
    """

    broker: str
    seconds: float
    received: int
    refused: dict[str, int]
    feed_messages: int
    subscriptions: int
    actors: int  # behind it, directly or through further brokers
    memory: int  # bytes of the process
    upstreams: tuple[UpstreamStatus, ...]
