"""The share of each connection in a feed's subscriptions, on the clock of the test."""

import pytest

from farflung.common.net.keys import ACTOR, BROKER, Client
from farflung.common.net.shares import BROKER as AT_BROKER
from farflung.common.net.shares import LEARNER, Account, Holder
from farflung.common.protocol import topics


def client(connection: int, role: str = BROKER) -> Client:
    """Return the client of a connection."""
    return Client("box", role, connection)


def own(actor: str) -> bytes:
    """Return the topic of an actor's acknowledgements."""
    return topics.acknowledgement("default", actor, 7)


class Side:
    """An account that cuts as the gate does."""

    def __init__(self, shares=LEARNER) -> None:
        self.known: set[bytes] = set()
        self.account = Account(shares, self.known.__contains__, 0.0)
        self.cut: list[tuple[int, str]] = []

    def subscribe(self, holder: Holder, topic: bytes, now: float = 0.0) -> None:
        """Add a topic as agreed, and cut what is too much."""
        self.account.add(holder, topic, now)
        self.pour(holder, now)
        if topic in holder.topics:
            holder.topics[topic] = True

    def pour(self, holder: Holder, now: float = 0.0) -> None:
        """Count a message."""
        for heavy, reason in self.account.excess(holder, now):
            self.account.drop(heavy)
            self.cut.append((heavy.client.connection, reason))


@pytest.fixture
def side() -> Side:
    """A learner's account."""
    return Side()


@pytest.mark.parametrize(("role", "kib"), [(ACTOR, 16), (BROKER, 1024)])
def test_a_connection_beyond_its_share_is_cut(side, role, kib):
    """An actor's share is small; a broker's has room for a crowd."""
    holder, size = side.account.open(client(1, role), 0.0), 0
    for number in range(1 << 16):
        topic = own(f"bad-{number}")
        size += len(topic) + 32
        side.subscribe(holder, topic, number)
        if side.cut:
            break
    assert side.cut == [(1, f"more than {kib} KiB of topics")]
    assert kib << 10 < size <= (kib << 10) + 200
    assert side.account.drop(holder) == []


def test_an_honest_crowd_meets_no_bound(side):
    """1,024 light actors of their own, and as many behind one broker, all joining at once."""
    behind = side.account.open(client(9999), 0.0)
    for number in range(1024):
        alone = side.account.open(client(number + 1, ACTOR), 0.0)
        for holder in (alone, behind):
            for topic in (own(f"box-{number}"), topics.snapshot("default", f"b-{number}", 7, 1)):
                side.subscribe(holder, topic)
            for topic in (b"c/default/", b"w/default/", b"s/default/"):
                side.subscribe(holder, topic)
    assert side.cut == []


def test_an_actor_that_asks_for_an_hour_meets_no_bound(side):
    """It takes back a question and asks the next, each second."""
    holder = side.account.open(client(1, ACTOR), 0.0)
    for second in range(3600):
        topic = topics.snapshot("default", "box/a", 7, second)
        side.subscribe(holder, topic, second)
        assert side.account.remove(holder, topic)
        side.pour(holder, second)
    assert side.cut == []


def test_topics_of_known_actors_are_free(side):
    """A broker may have as many as say hello; only the others count."""
    holder = side.account.open(client(1), 0.0)
    for number in range(40_000):
        topic = own(f"box-{number}")
        side.known.add(topic)
        side.subscribe(holder, topic, number)
    assert side.cut == []
    assert holder.weight <= holder.share.size < holder.size


def test_messages_are_bounded_without_topics_too(side):
    """To subscribe and unsubscribe for ever costs time, not memory."""
    holder = side.account.open(client(1, ACTOR), 0.0)
    for _ in range(256):
        side.pour(holder)
    assert side.cut == []
    side.pour(holder, 1.0)
    for _ in range(16):
        side.pour(holder, 1.0)
    assert side.cut == [(1, "more than 256 subscriptions at once")]


def test_a_topic_counts_once_for_its_connection(side):
    """Repetitions ask again, and weigh nothing."""
    holder = side.account.open(client(1), 0.0)
    for _ in range(100):
        side.subscribe(holder, own("a"))
    assert holder.size == len(own("a")) + 32
    assert side.account.remove(holder, own("a"))
    assert not side.account.remove(holder, own("a"))
    assert (holder.size, holder.weight) == (0, 0)


def test_where_all_are_too_much_the_heaviest_goes():
    """Fifty that stay within their shares do not take the place of honest ones."""
    side = Side(AT_BROKER)
    light = side.account.open(client(99), 0.0)
    side.subscribe(light, own("honest"))
    for number in range(300):
        for connection in range(1, 51):
            holder = side.account.holders.get(connection) or side.account.open(
                client(connection), 0.0
            )
            side.subscribe(holder, own(f"bad-{connection}-{number}"), number)
    assert side.cut
    assert {reason for _, reason in side.cut} == {
        "the most topics, while there are too many in all"
    }
    assert 99 not in {connection for connection, _ in side.cut}
    total = sum(holder.weight for holder in side.account.holders.values())
    assert total <= AT_BROKER.total.size


def test_where_all_send_too_much_the_busiest_goes():
    """One that sends little is never cut for what others send."""
    side = Side(AT_BROKER)
    light = side.account.open(client(99), 0.0)
    holders = [side.account.open(client(connection), 0.0) for connection in range(1, 51)]
    for _ in range(300):
        side.pour(light, 0.0) if light.bucket.level < 20 else None
        for holder in holders:
            side.pour(holder, 0.0)
    assert side.cut
    assert 99 not in {connection for connection, _ in side.cut}
    assert {reason for _, reason in side.cut} == {
        "the most subscriptions, while there are too many in all"
    }


def test_light_connections_are_never_cut():
    """A crowd of honest ones stays, even if it is more than the sum allows."""
    side = Side(AT_BROKER)
    for connection in range(1, 4000):
        holder = side.account.open(client(connection), 0.0)
        for number in range(5):
            side.subscribe(holder, own(f"box-{connection}-{number}"))
    assert side.cut == []


def test_what_ended_gives_its_weight_back(side):
    """A connection that comes and goes for ever costs nothing."""
    for connection in range(1, 500):
        holder = side.account.open(client(connection), float(connection))
        for number in range(100):
            side.subscribe(holder, own(f"box-{number}"), float(connection))
        assert len(side.account.drop(holder)) == 100
        del side.account.holders[connection]
    assert side.cut == []
    assert side.account._weight == 0
