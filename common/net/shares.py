"""The subscriptions of a feed by connection, and each connection's share of them. No sockets.

libzmq keeps every topic that arrives, agreed to or not, until its connection ends, and reads them
without end. So the one bound that holds is to end the connection.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from farflung.common.net.bucket import Bucket
from farflung.common.net.keys import ACTOR, OPERATOR, Client

TOPIC_BYTES = 32  # of a topic in this account, beside its own length
TOPIC_MEMORY = 90  # at most for each of these, measured: libzmq has two tries of single bytes
COUNT_S = 1.0  # between two counts of the topics of known actors on one connection
LOOK_S = 0.1  # between two looks for the largest of many light connections
# What an honest actor never exceeds: the sum of all connections never ends one below this.
LEAST_BYTES, LEAST_MESSAGES = 4096, 64


class Share(NamedTuple):
    """The bounds of one connection, or of all together."""

    size: int  # bytes of topics that stand, each with TOPIC_BYTES
    messages: int  # subscriptions and unsubscriptions at once
    per_second: int  # of them in the long run


class Shares(NamedTuple):
    """The bounds of a feed."""

    actor: Share  # of a connection with a key of role actor or operator
    many: Share  # of one that may be a broker: with a key of that role, or without keys
    total: Share  # of all connections


ONE = Share(16 << 10, 256, 16)  # an actor has 5 topics of about 60 bytes, and asks every 2 s
# A broker has less in total than one connection has at a learner, so none loses its own. An
# actor that joins through a broker needs about 200 bytes: there is room for 2,600 at once there,
# and for 5,000 on one connection of a learner, beside those that have said hello.
BROKER = Shares(ONE, Share(512 << 10, 8192, 512), Share(512 << 10, 8192, 512))
LEARNER = Shares(ONE, Share(1 << 20, 16_384, 1024), Share(4 << 20, 65_536, 4096))


class Holder:
    """One connection of the feed."""

    def __init__(self, client: Client, share: Share, now: float) -> None:
        self.client, self.share = client, share
        self.topics: dict[bytes, bool] = {}  # True: agreed to
        self.size = 0  # of all topics
        self.known = 0  # of those among them of known actors, as of the last count
        self.counted_at = float("-inf")
        self.bucket = Bucket(share.messages, now)
        self.is_cut = False

    @property
    def weight(self) -> int:
        """The bytes that count: those of topics of known actors do not."""
        return self.size - self.known


class Account:
    """The connections of a feed and what they hold."""

    def __init__(self, shares: Shares, is_known: Callable[[bytes], bool], now: float) -> None:
        self.holders: dict[int, Holder] = {}  # by number of the connection
        self._shares, self._is_known = shares, is_known
        self.size = 0  # bytes of all topics
        self._weight = 0  # of all holders
        self._bucket = Bucket(shares.total.messages, now)
        self._looks_at = float("-inf")  # the next time, if all connections were light at the last

    def open(self, client: Client, now: float) -> Holder:
        """Return the holder of a new connection."""
        share = self._shares.actor if client.role in (ACTOR, OPERATOR) else self._shares.many
        holder = self.holders[client.connection] = Holder(client, share, now)
        return holder

    def add(self, holder: Holder, topic: bytes, now: float) -> None:
        """Note a topic, which is not agreed to yet."""
        if topic not in holder.topics:
            holder.topics[topic] = False
            self._weigh(holder, holder.size + _cost(topic), holder.known)
            if holder.weight > holder.share.size:
                self._count(holder, now)

    def remove(self, holder: Holder, topic: bytes) -> bool:
        """Forget a topic; return whether it was agreed to."""
        agreed = holder.topics.pop(topic, None)
        if agreed is not None:
            size = holder.size - _cost(topic)
            self._weigh(holder, size, min(holder.known, size))
        return bool(agreed)

    def drop(self, holder: Holder) -> list[bytes]:
        """Forget all that a connection holds; return the topics that were agreed to."""
        agreed = [topic for topic, stands in holder.topics.items() if stands]
        holder.topics, holder.bucket.level = {}, 0.0
        self._weigh(holder, 0, 0)
        return agreed

    def excess(self, holder: Holder, now: float) -> Iterator[tuple[Holder, str]]:
        """Yield the connections to cut after a message of one, each with the reason.

        The caller drops each before it takes the next.
        """
        fits = holder.bucket.pour(now, holder.share.per_second)
        all_fit = self._bucket.pour(now, self._shares.total.per_second)
        if not fits:
            yield holder, f"more than {holder.share.messages} subscriptions at once"
        elif holder.weight > holder.share.size:
            yield holder, f"more than {holder.share.size >> 10} KiB of topics"
        elif now >= self._looks_at:
            yield from self._excess_of_all(all_fit, now)

    def _excess_of_all(self, all_fit: bool, now: float) -> Iterator[tuple[Holder, str]]:
        busiest = None if all_fit else self._largest(lambda one: one.bucket.level)
        if busiest is not None and busiest.bucket.level > LEAST_MESSAGES:
            self._bucket.level -= busiest.bucket.level
            yield busiest, "the most subscriptions, while there are too many in all"
        elif busiest is not None:
            self._looks_at = now + LOOK_S
        while self._weight > self._shares.total.size:
            heaviest = self._largest(lambda one: one.weight)
            if self._count(heaviest, now):
                continue
            if heaviest.weight <= LEAST_BYTES:
                self._looks_at = now + LOOK_S
                return
            yield heaviest, "the most topics, while there are too many in all"

    def _largest(self, of: Callable[[Holder], float]) -> Holder:
        return max(self.holders.values(), key=of)

    def _count(self, holder: Holder, now: float) -> bool:
        """Count the topics of known actors again, at most once a second; return if it did."""
        if now - holder.counted_at < COUNT_S:
            return False
        holder.counted_at = now
        known = sum(_cost(topic) for topic in holder.topics if self._is_known(topic))
        self._weigh(holder, holder.size, known)
        return True

    def _weigh(self, holder: Holder, size: int, known: int) -> None:
        self._weight -= holder.weight
        self.size += size - holder.size
        holder.size, holder.known = size, known
        self._weight += holder.weight


def _cost(topic: bytes) -> int:
    return len(topic) + TOPIC_BYTES
