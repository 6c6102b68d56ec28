"""The bytes that libzmq holds for each connection, by the kernel's count. No sockets, no clock.

libzmq has two queues without a bound in bytes. A feed's socket takes in all subscriptions that
arrive, keeps each topic, and does so while its gate still has the first ones to read. And of a
message in parts it keeps every part until the last one comes, however many there are. So the watch
over connections compares what the kernel received with what was handed to us.
"""

from collections.abc import Iterator, Mapping

from farflung.common.net.connections import Connection, Excess
from farflung.common.protocol.acknowledgements import TOTAL_BYTES
from farflung.common.protocol.wire import MAX_MESSAGE_BYTES

# Bytes of subscriptions that no gate has read. The queue of a connection is short: an honest one
# has next to none, however many it brings.
TOPICS, LEAST_TOPICS = 256 << 10, 4 << 10  # of all; of one, below which it is not ended
# Of a message that is not complete: the largest one, and what came since the last look.
UNFINISHED = MAX_MESSAGE_BYTES + (32 << 20)
UNREAD = TOTAL_BYTES + UNFINISHED  # of all connections: all credit, and a message
PAST = 1 << 20  # beyond it, until the kernel drops what comes
FRAME_BYTES = 64  # at most of each message beside its content: 42 with keys, 9 without

Sizes = Mapping[Connection, int]  # bytes received


class Intake:
    """Finds the connections that bring more than is read, or a message without an end."""

    def __init__(self, largest: int = MAX_MESSAGE_BYTES) -> None:
        more = largest - MAX_MESSAGE_BYTES
        self._unfinished, self._unread = UNFINISHED + more, UNREAD + more
        self.topics = 0  # bytes of subscriptions that were not read at the last look
        self.messages = 0  # and of messages
        self._feed, self._messages = _Look(), _Look()

    def most(self, one: Connection) -> int:
        """Return the bytes that a connection where messages come in may have brought by now."""
        return _read(one) + self._unfinished + PAST

    def excess_of_topics(self, received: Sizes, drained: int) -> Iterator[Excess]:
        """Yield the connections to end at a feed, which had been drained so often."""
        for one, size in self._feed.judged(received, drained):
            if one.handed is not None:  # all of it had been read: the rest is no content
                one.handed.rebate = max(one.handed.rebate, size - one.handed.total)
        held = {
            one: size - one.handed.total - one.handed.rebate if one.handed else size
            for one, size in received.items()
        }
        counted = {one: size - LEAST_TOPICS for one, size in held.items() if size > LEAST_TOPICS}
        self.topics = sum(counted.values())
        yield from _largest(counted, self.topics - TOPICS, "topics")

    def excess_of_messages(self, received: Sizes, drained: int) -> Iterator[Excess]:
        """Yield the connections to end where messages come in, drained so often so far."""
        held = {one: _waiting(one, size) for one, size in received.items()}
        self.messages = sum(held.values())
        yield from _largest(held, self.messages - self._unread, "unread")
        for one, size in self._messages.judged(received, drained):
            if size - _read(one) > self._unfinished:
                yield Excess(one, "unfinished")


class _Look:
    """The bytes received at a look, which can be judged once a socket was drained after it."""

    def __init__(self) -> None:
        self._received: Sizes = {}
        self._drained = 0

    def judged(self, received: Sizes, drained: int) -> Iterator[tuple[Connection, int]]:
        """Yield connections with the bytes of the last look, if those were read since."""
        # The next reading may have begun before that look; the one after it had not.
        if drained >= self._drained + 2:
            before, self._received, self._drained = self._received, received, drained
            yield from ((one, size) for one, size in before.items() if one in received)


def _read(one: Connection) -> int:
    """Return the bytes that were handed to us, with all that may be beside the content."""
    handed = one.handed
    if handed is None:
        return 0
    return handed.total + handed.total_messages * FRAME_BYTES - handed.rebate


def _waiting(one: Connection, received: int) -> int:
    """Return the bytes that were not handed to us; a surplus is no credit for later."""
    surplus = _read(one) - received
    if one.handed is not None and surplus > 0:
        one.handed.rebate += surplus
    return max(0, -surplus)


def _largest(held: Sizes, too_much: int, reason: str) -> Iterator[Excess]:
    """Yield the largest until the others are no more than may be."""
    for one in sorted(held, key=held.__getitem__, reverse=True):
        if too_much <= 0:
            return
        too_much -= held[one]
        yield Excess(one, reason)
