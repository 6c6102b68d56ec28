"""Traces: while a client watches, the learner asks its actors for spans, and passes them on.

Being subscribed is the wish: it ends with the subscription. The learner keeps no span of an actor.
"""

from collections.abc import Callable, Iterator

from farflung.common.data.spec import Spec
from farflung.common.net.bucket import Bucket
from farflung.common.net.keys import ANY_CLIENT, Client, require_own_name
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import Probe, Spans, Trace
from farflung.common.protocol.names import Key
from farflung.common.protocol.spans import MOST, Taker, Tracer, microseconds, require_batch
from farflung.common.protocol.wire import Kind

PROBE_S = 0.1  # between two probes: a hundred round trips in ten seconds
LASTS_S = 65.0  # a subscription; for more, a client subscribes again
ROOM = 5000  # spans of all actors between two probes
LEAST_ROOM = 50  # of one of them
ANSWERED = 8  # probes that an answer may be to: a second of them nearly
# Answers, at once and in the long run: each known actor may answer each probe.
ANSWERS, ANSWERS_PER_S, ANSWERS_PER_NAME_S = 256, 16.0, 1.5 / PROBE_S

IsKnown = Callable[[Key], bool]
"""Tell if an incarnation has said hello."""


class Traces:
    """The learner's side of a trace. For the thread of the sockets."""

    def __init__(self, spec: Spec, learner_id: int, spans: Tracer, known: IsKnown) -> None:
        self._spec, self._learner_id, self._known = spec, learner_id, known
        self._clock, self._own = spans.clock, Taker(spans)
        self._watchers: dict[tuple[int, bytes], float] = {}  # connection, topic: until then
        self._probed_at = float("-inf")
        self._probes: dict[int, set[Key]] = {}  # the latest, with those that answered
        self._bucket = Bucket(ANSWERS, 0.0)
        self._answers: list[Trace] = []

    def subscribed(self, topic: bytes, sender: Client = ANY_CLIENT) -> None:
        """Note that a client watches from now on, if the topic is ours."""
        if topic != b"" and topics.trace(self._spec.policy).startswith(topic):
            self._watchers[sender.connection, topic] = self._clock() + LASTS_S

    def unsubscribed(self, topic: bytes, sender: Client = ANY_CLIENT) -> None:
        """Note that a client does not watch any more."""
        self._watchers.pop((sender.connection, topic), None)

    def receive(self, frame: bytes | bytearray | memoryview, sender: Client, names: int) -> None:
        """Take an answer to one of the latest probes; pass over a late or surplus one.

        Raise `Refused` for one that no honest actor sends.
        """
        now, pace = self._clock(), ANSWERS_PER_S + ANSWERS_PER_NAME_S * names
        if not self._watchers or not self._bucket.take(now, pace):
            return
        spans = wire.read(wire.open_frame(frame, (Kind.SPANS,)))
        assert isinstance(spans, Spans)
        require_own_name(spans.actor, sender)
        require_batch(spans.threads, spans.names, spans.spans)
        key = spans.actor, spans.incarnation
        ours = (spans.run, spans.policy) == (self._spec.run, self._spec.policy)
        answered = self._probes.get(spans.asked)
        if ours and answered is not None and key not in answered and self._known(key):
            answered.add(key)
            self._answers.append(self._trace(spans, microseconds(now)))

    def due(self, now: float, actors: int) -> Iterator[tuple[bytes, bytearray]]:
        """Yield the messages of a trace that are due; none if no client watches."""
        if not self._watchers:
            return
        topic = topics.trace(self._spec.policy)
        for answer in self._answers:
            yield topic, wire.encode(answer)
        self._answers.clear()
        if now - self._probed_at < PROBE_S:
            return
        self._probed_at, at = now, self._clock()
        self._watchers = {who: until for who, until in self._watchers.items() if at < until}
        yield topic, wire.encode(self._own_trace())
        yield topics.beacon(self._spec.policy), wire.encode(self._probe(actors))

    def _probe(self, actors: int) -> Probe:
        """Return a question to all actors, who share the room."""
        asked = microseconds(self._clock())
        self._probes[asked] = set()
        while len(self._probes) > ANSWERED:
            del self._probes[next(iter(self._probes))]
        room = min(MOST, max(LEAST_ROOM, ROOM // max(1, actors)))
        return Probe(self._spec.run, self._spec.policy, self._learner_id, asked, room)

    def _own_trace(self) -> Trace:
        """Return the spans of this process. Its clock is the one that others are compared to."""
        origin = self._spec.run, self._spec.policy, self._learner_id, ""
        at, batch = microseconds(self._clock()), self._own.take(MOST)
        return Trace(*origin, at, at, at, self._own.lost, *batch)

    def _trace(self, spans: Spans, received: int) -> Trace:
        """Return an answer as those who watch receive it: without the incarnation."""
        origin = spans.run, spans.policy, self._learner_id, spans.actor
        times = spans.asked, spans.at, received
        return Trace(*origin, *times, spans.lost, spans.threads, spans.names, spans.spans)
