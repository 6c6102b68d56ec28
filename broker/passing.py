"""The subscriptions that a broker passes upstream: each client in turn, at a pace. No sockets.

A learner ends a connection that subscribes too much, and all clients of a broker share the broker's
one. So the broker never passes on more than that connection may bring. A client that subscribes to
thousands of topics, or dials again and again, waits for its own turns. Others hardly wait for it.
"""

from collections import OrderedDict
from functools import partial

from farflung.broker.relay import Subscriptions
from farflung.common.net.bucket import Bucket
from farflung.common.protocol.snapshots import Snapshots

# Subscriptions and unsubscriptions, at once and in the long run: less than a broker upstream takes
# from one connection (`shares.BROKER`), and far less than a learner takes.
MESSAGES, PER_S = 6144, 448.0

Frames = tuple[bytes, ...]


class Passing:
    """Topics that wait to be passed upstream or withdrawn there, and questions for snapshots.

    Each connection's topics keep their order, so a snapshot comes when all else stands.
    Withdrawals have at least every other turn, so topics upstream do not pile up.
    """

    def __init__(self, subscriptions: Subscriptions, now: float) -> None:
        self.questions = Snapshots(one_pipe=True)
        self._subscriptions = subscriptions
        # Connections in the order of their turns, with their topics; True: a question.
        self._topics: OrderedDict[int, dict[bytes, bool]] = OrderedDict()
        self._pace = Bucket(MESSAGES, now)
        self._turn = 0

    def __len__(self) -> int:
        waiting = sum(map(len, self._topics.values()))
        return waiting + len(self.questions) + self._subscriptions.leaving

    def add(self, topic: bytes, connection: int, asks: bool) -> None:
        """Have a topic of a connection wait for its turn, and then for an answer if it asks."""
        self._topics.setdefault(connection, {})[topic] = asks

    def remove(self, topic: bytes, connection: int) -> None:
        """Forget a topic that a connection does not have any more."""
        self.questions.confirm(topic.decode(), connection)
        waiting = self._topics.get(connection, {})
        waiting.pop(topic, None)
        if not waiting:
            self._topics.pop(connection, None)

    def next(self, now: float) -> Frames:
        """Return the next frames to pass upstream; none if nothing waits or the pace forbids it."""
        if not self._pace.has_room(now, PER_S):
            return ()
        leave = self._subscriptions.leave
        turns = leave, self._topic, leave, partial(self._question, now)
        for _ in turns:
            frames = turns[self._turn]()
            self._turn = (self._turn + 1) % len(turns)
            if frames:
                self._pace.level += len(frames)
                return frames
        return ()

    def _topic(self) -> Frames:
        """Take topics, one of each connection in turn, until one has to be passed on."""
        while self._topics:
            connection, waiting = self._topics.popitem(last=False)
            topic = next(iter(waiting))
            asks = waiting.pop(topic)
            if waiting:
                self._topics[connection] = waiting  # behind the others
            if asks:
                self.questions.ask(topic.decode(), connection)
            elif frames := self._subscriptions.pass_on(topic):
                return frames
        return ()

    def _question(self, now: float) -> Frames:
        """Take questions until one has to be passed on."""
        while (topic := self.questions.next(now)) is not None:
            if frames := self._subscriptions.pass_on(topic.encode()):
                return frames
        return ()
