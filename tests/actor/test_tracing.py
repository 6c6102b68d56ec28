"""Spans of an actor: answers to probes of its learner, and nothing else while no client watches."""

import pytest
from msgspec import structs
from support import worlds  # noqa: F401  # registers environments
from support.learner_double import DoubleTransport, LearnerDouble
from support.playing import a_version, playing, spec_of, window
from support.stamps import a_stamp_spec
from support.waiting import Clock

from farflung.actor.connection.inline import InlineConnection
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.loop import ActorLoop
from farflung.actor.rules import Rules
from farflung.actor.tracing import TracedWorld, Tracing
from farflung.actor.worlds.families import opener
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.data.spec import World
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import Hello, Probe, Report, Spans, Trace
from farflung.common.protocol.spans import KEPT_S, Taker, Tracer, unpack
from farflung.learner.endpoint.traces import PROBE_S

X = topics.trace("p")


class Watched(LearnerDouble):
    """A learner, and what those who watch it receive."""

    def __init__(self):
        super().__init__(a_stamp_spec())
        self.traces = []

    def due(self, now, client=None):
        due = super().due(now, client)
        self.traces += [read(frame) for topic, frame in due if topic == X]
        return due


def read(frame):
    return wire.read(wire.open_frame(frame))


def acted(learner, each):
    """Run an actor's loop; `each` is called with it and the number of each turn."""
    stop, clock, watchdog = Stop(), Clock(0.001), Watchdog(0.0)
    client = PolicyClient("p", "a", 1)

    def turn(number):
        assert number < 2000
        if each(loop, number):
            stop.set("enough")

    connection = InlineConnection(client, DoubleTransport(client, learner, clock, turn), clock)
    around = Surroundings(client.problem, clock.wait, clock, watchdog.beat)
    rest = opener(1, around), Rules(), stop, watchdog, Who("actor", "a"), clock
    loop = ActorLoop(connection, *rest)
    try:
        loop.run()
    finally:
        stop.close()
    return connection.spans


def lies_in(inner, outer):
    """Return whether one span is within another."""
    end = outer.begin_us + outer.length_us
    return outer.begin_us <= inner.begin_us and inner.begin_us + inner.length_us <= end


def test_actor_records_its_windows_while_a_client_watches():
    """Environment and inference lie in windows; each part of a turn has a span."""
    learner = Watched()
    learner.endpoint.subscribed(X)

    def each(loop, number):
        return sum(bool(trace.spans) for trace in learner.traces if trace.actor) >= 3

    acted(learner, each)
    traces = [trace for trace in learner.traces if trace.actor]
    spans = [span for trace in traces for span in unpack(trace.threads, trace.names, trace.spans)]
    names = {span.name for span in spans}
    assert {"window", "environment", "inference", "pack", "exchange"} <= names
    assert {span.thread for span in spans} == {"steps"}
    windows = [span for span in spans if span.name == "window"]
    steps = [span for span in spans if span.name in ("environment", "inference")]
    last = max(span.begin_us for span in windows)
    inside = [step for step in steps if windows[0].begin_us <= step.begin_us < last]
    assert inside
    assert all(any(lies_in(step, window) for window in windows) for step in inside)
    assert all(trace.asked <= trace.at <= trace.received for trace in traces)


def test_actor_plays_plain_again_when_the_client_has_left():
    """It records for a moment longer; then the same world and policy act as before the trace."""
    learner = Watched()
    learner.endpoint.subscribed(X)
    seen = []

    def each(loop, number):
        play, spans = loop._play, loop._connection.spans
        if play is None:
            return False
        if type(play.world) is TracedWorld and not seen:
            seen.append(play.world)
            learner.endpoint.unsubscribed(X)
            spans.clock = lambda: later
        if seen and type(play.world) is not TracedWorld:
            seen.append(play.world)
        return len(seen) > 1

    later = Tracer().clock() + 2 * KEPT_S
    spans = acted(learner, each)
    assert not spans.on
    assert [type(world) is TracedWorld for world in seen] == [True, False]


def test_traced_windows_have_the_same_rows():
    """Of the same seed, with spans and without."""
    rows = []
    for on in (False, True):
        play, tracer = playing(spec_of(World("toys/Stamp-v0")), 2), Tracer()
        if on:
            Taker(tracer).take(1000)
        Tracing(tracer).look(play)
        assert (type(play.world) is TracedWorld) is on
        rows.append([parcel.columns for parcel in window(play, a_version(1))])
    for plain, traced in zip(*rows, strict=True):
        assert plain.keys() == traced.keys()
        assert all((plain[name] == traced[name]).all() for name in plain)


@pytest.fixture
def joined():
    """A learner, and a client that joined its run."""
    learner, client = LearnerDouble(a_stamp_spec()), PolicyClient("p", "a", 1)
    client.rebuilt(0.0)
    client.ask(0.0)
    learner.send_to(client, 0.0)
    learner.receive_from(client, 0.0)
    return learner, client


def sent_by(client):
    """Return the messages that a client sends."""
    sent = []
    client.drain(0.0, lambda frame: sent.append(read(bytes(frame))) is None)
    return sent


def a_probe(learner):
    """Return the next question of a learner."""
    learner.endpoint.subscribed(X)
    [frame] = [f for _, f in learner.due(2 * PROBE_S) if wire.kind_of(f) == wire.Kind.PROBE]
    return read(frame)


def test_client_answers_a_probe_of_its_learner_only(joined):
    """Not that of another run, or of another process of this run."""
    learner, client = joined
    probe = a_probe(learner)
    for changes in ({"run": "s"}, {"learner_id": 99}):
        other = wire.encode(structs.replace(probe, **changes))
        client.receive(topics.beacon("p"), bytes(other), 0.0)
    assert sent_by(client) == []
    client.receive(topics.beacon("p"), bytes(wire.encode(probe)), 0.0)
    [answer] = sent_by(client)
    assert isinstance(answer, Spans)
    assert (answer.asked, answer.actor) == (probe.asked, "a")
    assert isinstance(probe, Probe)


def test_answers_that_wait_do_not_push_out_other_words(joined):
    """While nothing can leave, hello and report stay, and of the answers the newest."""
    learner, client = joined
    client.ask(0.0)
    client.bye("the end")
    probe = a_probe(learner)
    for number in range(100):
        later = structs.replace(probe, asked=probe.asked + number)
        client.receive(topics.beacon("p"), bytes(wire.encode(later)), 0.0)
    sent = sent_by(client)
    kinds = [type(message) for message in sent]
    assert kinds[:2] == [Hello, Report]
    assert kinds.count(Spans) == 1
    assert [message.asked for message in sent if isinstance(message, Spans)] == [probe.asked + 99]
    assert not any(isinstance(message, Trace) for message in sent)
