"""What a broker decides: who serves a policy, what fits, what is asked for upstream, when to connect anew. No sockets, no clock."""

from collections import Counter, deque
from collections.abc import Sized
from dataclasses import dataclass
from typing import Generic, TypeVar

from farflung.common.protocol import topics
from farflung.common.protocol.learner_tracker import DOUBLINGS, SILENCE_S

Frame = TypeVar("Frame", bound=Sized)

# What a broker listens to for itself: who serves what, which announcements tell at once; and whether a broker above it lives.
OWN = (topics.beacon(), topics.announcement(), topics.broker())
TOPICS = 65_536  # subscribed at once; nobody who is honest needs more
SUBSCRIBE, UNSUBSCRIBE = b"\x01", b"\x00"


class Routes:
    """Which upstream serves each policy: the one whose feed speaks of it."""

    def __init__(self) -> None:
        self._claims: dict[
            str, tuple[int, float]
        ] = {}  # upstream, and when it last spoke for the policy

    def hear(self, policy: str, upstream: int, now: float) -> bool:
        """An upstream speaks of a policy. False: another one does so too, and keeps the policy until it falls silent."""
        holder, heard_at = self._claims.get(policy, (upstream, now))
        if holder != upstream and now - heard_at < SILENCE_S:
            return False
        self._claims[policy] = upstream, now
        return True

    def find(self, policy: str) -> int | None:
        """The upstream that serves this policy."""
        claim = self._claims.get(policy)
        return None if claim is None else claim[0]

    def of(self, upstream: int) -> tuple[str, ...]:
        """The policies that an upstream serves."""
        return tuple(
            sorted(policy for policy, (holder, _) in self._claims.items() if holder == upstream)
        )


class Backlog(Generic[Frame]):
    """Frames that one upstream has not taken yet, bounded in bytes. What does not fit is not kept: an outbox still has it."""

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
        """The frame whose turn it is, still in the queue."""
        return self._frames[0] if self._frames else None

    def take(self) -> Frame:
        """The first frame, for good."""
        frame = self._frames.popleft()
        self.size -= len(frame)
        return frame

    def clear(self) -> int:
        """Forget everything; gives how many frames that were."""
        count = len(self._frames)
        self._frames.clear()
        self.size = 0
        return count


class Subscriptions:
    """What is subscribed at the front, and what is therefore said upstream: each topic once, each question every time."""

    def __init__(self) -> None:
        self._listeners = Counter(OWN)

    @property
    def topics(self) -> list[bytes]:
        """What a fresh connection upstream subscribes to, in byte order: the questions come when the others stand."""
        return sorted(self._listeners)

    def __len__(self) -> int:
        return len(self._listeners)

    def agrees(self, topic: bytes) -> bool:
        """Whether somebody may hear this topic."""
        return topics.is_allowed(topic) and (
            topic in self._listeners or len(self._listeners) < TOPICS
        )

    def add(self, topic: bytes) -> tuple[bytes, ...]:
        """Somebody subscribed; gives the words to pass upstream."""
        self._listeners[topic] += 1
        if self._listeners[topic] == 1:
            return (SUBSCRIBE + topic,)
        asks = topic.startswith(
            (b"s/", b"z/")
        )  # the answer comes upon the subscription itself: ask again for the newcomer
        return (UNSUBSCRIBE + topic, SUBSCRIBE + topic) if asks else ()

    def forget(self) -> tuple[bytes, ...]:
        """All who listened are gone at once; gives the words to pass upstream."""
        gone = tuple(UNSUBSCRIBE + topic for topic in self.topics if topic not in OWN)
        self._listeners = Counter(OWN)
        return gone

    def remove(self, topic: bytes) -> tuple[bytes, ...]:
        """Somebody left; gives the words to pass upstream."""
        if topic not in self._listeners:
            return ()  # never agreed to
        self._listeners[topic] -= 1
        if self._listeners[topic]:
            return ()
        del self._listeners[topic]
        return (UNSUBSCRIBE + topic,)


class Pulse:
    """Whether an upstream lives, or its sockets are due to be made anew.

    They are after 8 s of silence, then 16, then 32; and when what waits for it has not moved for 8 s.
    """

    def __init__(self, now: float) -> None:
        self.builds = 0
        self._attempts = 0  # in vain
        self._heard_at = now
        self.built(now)

    def built(self, now: float) -> None:
        """The sockets were made."""
        self.builds += 1
        self._attempts += 1
        self._built_at = self._moved_at = now

    def heard(self, now: float) -> None:
        """Anything came on its feed."""
        self._heard_at = now
        self._attempts = 1

    def moved(self, now: float) -> None:
        """It took something, or nothing waits for it."""
        self._moved_at = now

    def silence(self, now: float) -> float:
        """Seconds since it was heard."""
        return now - self._heard_at

    def due(self, now: float) -> str:
        """Why to connect anew, if so. Judge only after reading the feed to its end: what is unread is not silence."""
        patience_s = SILENCE_S * (1 << min(self._attempts - 1, DOUBLINGS))
        if now - max(self._heard_at, self._built_at) >= patience_s:
            return f"nothing was heard for {now - self._heard_at:.0f} s"
        return (
            f"nothing was taken for {now - self._moved_at:.0f} s"
            if now - self._moved_at >= SILENCE_S
            else ""
        )


@dataclass(frozen=True, slots=True)
class UpstreamFigures:
    """What became of the messages for one upstream: each was passed, is queued, or was dropped under a reason."""

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
class Figures:
    """What a broker tells whoever watches: received = passed + queued + dropped at the upstreams + refused."""

    broker: str
    seconds: float
    received: int
    refused: dict[str, int]
    feed_messages: int
    subscriptions: int
    upstreams: tuple[UpstreamFigures, ...]
