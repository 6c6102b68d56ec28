"""Subscriptions that a broker passes upstream: fair turns, a pace, and withdrawals."""

from collections.abc import Iterator

from farflung.broker.passing import MESSAGES, PER_S, Passing
from farflung.broker.relay import OWN, Subscriptions
from farflung.common.net import shares
from farflung.common.protocol import topics


def ack(number: int) -> bytes:
    """Return the private topic of an incarnation."""
    return topics.acknowledgement("p", "box", number)


def question(number: int) -> bytes:
    """Return a question for a snapshot."""
    return topics.snapshot("p", f"box-{number}", number, 1)


class Front:
    """The subscriptions of a broker's clients, without sockets."""

    def __init__(self) -> None:
        self.subscriptions = Subscriptions()
        self.passing = Passing(self.subscriptions, 0.0)

    def subscribe(self, topic: bytes, connection: int, asks: bool = False) -> None:
        """Subscribe for a connection."""
        self.subscriptions.add(topic, connection)
        self.passing.add(topic, connection, asks)

    def unsubscribe(self, topic: bytes, connection: int) -> None:
        """Unsubscribe for a connection."""
        self.subscriptions.remove(topic, connection)
        self.passing.remove(topic, connection)

    def frames(self, now: float) -> Iterator[bytes]:
        """Yield all that is passed upstream at a time."""
        while frames := self.passing.next(now):
            yield from frames


def test_a_client_with_few_topics_does_not_wait_for_one_with_thousands() -> None:
    """Each connection has its turn: two topics of the second are passed within four frames."""
    front = Front()
    for number in range(5000):
        front.subscribe(ack(number), 1)
    front.subscribe(b"s/p/", 2)
    front.subscribe(b"w/p/", 2)
    passed = front.frames(0.0)
    first = [next(passed) for _ in range(4)]
    assert first == [b"\x01" + topic for topic in (ack(0), b"s/p/", ack(1), b"w/p/")]


def test_no_more_is_passed_than_the_pace_allows() -> None:
    """A burst, then so much a second, however much waits."""
    front = Front()
    for number in range(3 * MESSAGES):
        front.subscribe(ack(number), 1)
    assert sum(1 for _ in front.frames(0.0)) == MESSAGES
    assert sum(1 for _ in front.frames(10.0)) == 10 * PER_S
    assert len(front.passing) == 3 * MESSAGES - MESSAGES - 10 * PER_S


def test_pace_is_within_the_share_of_one_connection_at_any_upstream() -> None:
    """Also while its own topics and a burst come together: else all its clients lose their feed."""
    for share in (shares.BROKER.many, shares.LEARNER.many):
        assert MESSAGES + len(OWN) + 2 <= share.messages  # a question that is asked again has two
        assert share.per_second >= PER_S


def test_a_client_that_dials_again_and_again_passes_no_more_than_the_pace() -> None:
    """Before: each new connection brought thousands, and the learner ended the broker's one."""
    front, sent, seconds = Front(), 0, 20
    for now in range(seconds):
        ours = [ack(10_000 * now + number) for number in range(5000)]
        for topic in ours:
            front.subscribe(topic, now)
        sent += sum(1 for _ in front.frames(now))
        for topic in ours:  # it is cut
            front.unsubscribe(topic, now)
        sent += sum(1 for _ in front.frames(now))
    assert sent <= MESSAGES + PER_S * seconds
    sent += sum(1 for _ in front.frames(3600.0))
    assert front.subscriptions.topics == sorted(OWN)
    assert len(front.passing) == 0


def test_topics_of_a_client_that_went_are_not_passed() -> None:
    """They waited for their turn when it left."""
    front = Front()
    for number in range(MESSAGES + 10):
        front.subscribe(ack(number), 1)
    assert sum(1 for _ in front.frames(0.0)) == MESSAGES
    for number in range(MESSAGES, MESSAGES + 10):
        front.unsubscribe(ack(number), 1)
    assert len(front.passing) == 0
    assert not list(front.frames(60.0))


def test_withdrawals_and_subscriptions_take_turns() -> None:
    """So many withdrawals hold up no client that joins, and topics upstream do not pile up."""
    front = Front()
    for number in range(100):
        front.subscribe(ack(number), 1)
    assert len(list(front.frames(0.0))) == 100
    for number in range(100):
        front.unsubscribe(ack(number), 1)
        front.subscribe(ack(1000 + number), 2)
    words = [frame[:1] for frame in front.frames(0.0)]
    assert (words.count(b"\x00"), words.count(b"\x01")) == (100, 100)
    assert words[:30].count(b"\x01") == 10  # one of three, while no question waits


def test_a_topic_that_comes_back_in_time_stays_upstream() -> None:
    """Its withdrawal waits; a new subscriber makes it needless."""
    front = Front()
    front.subscribe(ack(1), 1)
    list(front.frames(0.0))
    front.unsubscribe(ack(1), 1)
    front.subscribe(ack(1), 2)
    front.passing._turn = 1  # the subscription has its turn before the withdrawal
    assert not list(front.frames(0.0))
    assert ack(1) in front.subscriptions.topics


def test_a_question_is_passed_after_the_topics_before_it() -> None:
    """So the snapshot comes when all else of its client stands, also where others wait too."""
    front = Front()
    for number in range(50):
        front.subscribe(ack(number), 1)
    for topic in (ack(99), b"s/p/", b"w/p/"):
        front.subscribe(topic, 2)
    front.subscribe(question(2), 2, asks=True)
    passed = list(front.frames(0.0))
    places = [passed.index(b"\x01" + topic) for topic in (ack(99), b"s/p/", b"w/p/", question(2))]
    assert places == sorted(places)
    assert len(front.passing) == 0


def test_a_question_that_was_answered_is_withdrawn() -> None:
    """Its subscriber may stay; the next question of another client has its place."""
    front = Front()
    front.subscribe(question(1), 1, asks=True)
    assert list(front.frames(0.0)) == [b"\x01" + question(1)]
    front.passing.questions.confirm(question(1).decode())
    front.subscriptions.withdraw(question(1))
    assert list(front.frames(0.0)) == [b"\x00" + question(1)]
