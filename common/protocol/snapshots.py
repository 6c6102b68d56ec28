"""Private snapshots of spec and newest weights: connections get them in turn, a few at a time."""

from collections import Counter

WAITING = 4096  # questions that wait at once; beyond it, the connection with the most loses one
OF_ONE = 1024  # of one connection: a broker's may be those of a crowd
# Unconfirmed ones in one pipe, so that a crowd of joiners does not overflow the pipe of a broker.
# Small ones may be on the way to many, else a crowd waits for one round trip after the other.
AT_ONCE, MOST_AT_ONCE = 2, 32
AT_ONCE_BYTES = 32 << 20  # of weights
PATIENCE_S = 2.0  # until an unconfirmed one no longer counts


class Snapshots:
    """The questions of each connection in order, and the answers that are not confirmed.

    A topic ends in `/<nonce>`; the part before it is one asker. A question that was forgotten is
    asked again by its actor. An unread answer keeps only its own pipe waiting.
    """

    def __init__(self, one_pipe: bool = False) -> None:
        self._one_pipe = one_pipe  # all answers come through one, as at a broker
        self._waiting: dict[int, dict[str, str]] = {}  # connection -> asker -> topic
        self._count = 0  # of the questions that wait
        self._turns: dict[int, None] = {}  # connections with a question and room in their pipe
        # Topic -> connection and time of the answer, in this order.
        self._unconfirmed: dict[str, tuple[int, float]] = {}
        self._filled: Counter[int] = Counter()  # unconfirmed ones by pipe
        self.at_once = AT_ONCE

    def __len__(self) -> int:
        return self._count

    def fit(self, message_bytes: int) -> None:
        """Allow for weights of this size in a snapshot from now on."""
        self.at_once = max(AT_ONCE, min(MOST_AT_ONCE, AT_ONCE_BYTES // max(1, message_bytes)))

    def ask(self, topic: str, connection: int = 0) -> None:
        """Queue a question; a newer nonce replaces the asker's older one in its place."""
        asker = topic.rpartition("/")[0]
        waiting = self._waiting.setdefault(connection, {})
        if asker not in waiting:
            if len(waiting) >= OF_ONE:
                self._forget_oldest(connection)
            elif self._count >= WAITING:
                self._forget_oldest(max(self._waiting, key=lambda one: len(self._waiting[one])))
            self._count += 1
        self._waiting.setdefault(connection, waiting)[asker] = topic
        self._turns.setdefault(connection)

    def next(self, now: float) -> str | None:
        """Return the topic to publish a snapshot on now, which counts as unconfirmed from now on.

        Return None if no snapshot is due. Each connection gets one before any gets another.
        """
        self._expire(now)
        while self._turns:
            connection = next(iter(self._turns))
            if self._filled[self._pipe(connection)] >= self.at_once:
                if self._one_pipe:
                    return None
                del self._turns[connection]  # until there is room
                continue
            del self._turns[connection]
            waiting = self._waiting[connection]
            topic = waiting.pop(next(iter(waiting)))
            self._count -= 1
            if topic in self._unconfirmed:  # asked again
                self._release(self._unconfirmed.pop(topic)[0])
            self._filled[self._pipe(connection)] += 1
            self._unconfirmed[topic] = connection, now
            self._offer(connection)
            return topic
        return None

    def confirm(self, topic: str, connection: int = 0) -> None:
        """Note that a hello named a snapshot, or that a connection unsubscribed from its topic.

        A hello comes through another connection than the question.
        """
        answered = self._unconfirmed.pop(topic, None)
        if answered is not None:
            connection = answered[0]
            self._release(connection)
        waiting, asker = self._waiting.get(connection, {}), topic.rpartition("/")[0]
        if waiting.get(asker) == topic:
            del waiting[asker]
            self._count -= 1
            self._offer(connection)

    def _expire(self, now: float) -> None:
        while self._unconfirmed:
            topic, (connection, at) = next(iter(self._unconfirmed.items()))
            if now - at < PATIENCE_S:
                return
            del self._unconfirmed[topic]
            self._release(connection)

    def _release(self, connection: int) -> None:
        pipe = self._pipe(connection)
        self._filled[pipe] -= 1
        if not self._filled[pipe]:
            del self._filled[pipe]
        self._offer(connection)

    def _offer(self, connection: int) -> None:
        """Put a connection behind all others that have a question, if it has one."""
        if self._waiting.get(connection):
            self._turns.setdefault(connection)
        else:
            self._waiting.pop(connection, None)
            self._turns.pop(connection, None)

    def _forget_oldest(self, connection: int) -> None:
        waiting = self._waiting[connection]
        del waiting[next(iter(waiting))]
        self._count -= 1
        self._offer(connection)

    def _pipe(self, connection: int) -> int:
        return 0 if self._one_pipe else connection
