"""Traces at a learner: probes while a client watches, answers passed on, all within bounds."""

import pytest
from msgspec import structs
from support.makers import a_spec
from support.messages import BATCH, from_actor

from farflung.common.net.keys import ANY_CLIENT, Client
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import Probe, Trace
from farflung.common.protocol.spans import MOST, unpack
from farflung.learner.endpoint import traces
from farflung.learner.endpoint.endpoint import Endpoint

X, C = topics.trace("default"), topics.beacon("default")


class Side:
    """An endpoint, with one actor that said hello."""

    def __init__(self):
        self.endpoint = Endpoint(a_spec(), learner_id=5)
        self.now = 0.0
        self.hear(from_actor()["hello"])

    def hear(self, message, sender=ANY_CLIENT):
        """Receive a message."""
        self.endpoint.receive([(wire.encode(message), sender)], self.now)

    def sent(self, kind, seconds=1.01 * traces.PROBE_S):
        """Return the messages of a kind that are due so many seconds later, with their topics."""
        self.now += seconds
        found = [
            (topic, wire.read(wire.open_frame(bytes(frame))))
            for topic, frame in self.endpoint.due(self.now)
            if topic in (X, C)
        ]
        return [(topic, message) for topic, message in found if isinstance(message, kind)]

    def probe(self):
        """Return the next probe."""
        [(topic, probe)] = self.sent(Probe)
        assert topic == C
        return probe

    def answer(self, probe, **changes):
        """Send the actor's answer."""
        self.hear(structs.replace(from_actor()["spans"], asked=probe.asked, **changes))

    def passed_on(self):
        """Return the traces of actors that are due."""
        return [trace for topic, trace in self.sent(Trace) if topic == X and trace.actor]

    @property
    def refused(self):
        """Refusals by reason."""
        return self.endpoint.inbox.ledger.refused


@pytest.fixture
def side():
    return Side()


@pytest.fixture
def watched(side):
    assert side.endpoint.subscribed(X)
    return side


def test_nothing_is_asked_until_a_client_watches(side):
    """Neither of the actors nor of its own threads."""
    assert side.sent((Probe, Trace)) == []
    assert not side.endpoint.spans.on


def test_learner_asks_ten_times_a_second_while_a_client_watches(watched):
    """Its own spans come with each question; all ends with the subscription."""
    assert [len(watched.sent(Probe, 0.06)) for _ in range(5)] == [1, 0, 1, 0, 1]
    watched.endpoint.spans.add("update", watched.endpoint.spans.clock(), 1e9)
    [(topic, own)] = watched.sent(Trace)
    assert (topic, own.actor, own.asked, own.received) == (X, "", own.at, own.at)
    assert [span.name for span in unpack(own.threads, own.names, own.spans)] == ["update"]
    watched.endpoint.unsubscribed(X)
    assert watched.sent((Probe, Trace)) == []


def test_answer_is_passed_on_with_the_round_trip_and_without_the_incarnation(watched):
    """The learner adds the time at which it came."""
    probe = watched.probe()
    watched.answer(probe)
    [trace] = watched.passed_on()
    assert (trace.actor, trace.asked, trace.at) == ("lab/box-1", probe.asked, 6_000_450)
    assert trace.received >= trace.asked
    assert (trace.threads, trace.names, trace.spans) == BATCH
    assert "incarnation" not in Trace.__struct_fields__


def test_each_probe_is_answered_once_and_soon(watched):
    """A second answer, one to an old probe and one to none are passed over: that is no fault."""
    probes = [watched.probe() for _ in range(traces.ANSWERED + 1)]
    for probe in (probes[0], probes[1], probes[1], structs.replace(probes[1], asked=3)):
        watched.answer(probe)
    assert [trace.asked for trace in watched.passed_on()] == [probes[1].asked]
    assert not watched.refused


def test_spans_of_a_stranger_or_of_another_run_are_passed_over(watched):
    """Only an incarnation that said hello is in a trace."""
    probe = watched.probe()
    watched.answer(probe, incarnation=8)
    watched.answer(probe, run="run-2")
    watched.answer(probe, policy="red")
    assert watched.passed_on() == []


def test_spans_are_not_read_where_no_client_watches(side):
    """A late answer costs nothing, and is no problem on the screen."""
    for frame in (wire.encode(from_actor()["spans"]), b"\xfa\x5f\x01\x07 no spans at all"):
        side.endpoint.receive([(frame, ANY_CLIENT)], 0.0)
    assert not side.refused
    assert not side.endpoint.receiver.problems


@pytest.mark.parametrize(
    ("changes", "sender", "reason"),
    [
        ({"spans": b"odd"}, ANY_CLIENT, "malformed"),
        ({"spans": bytes(16 * (MOST + 1))}, ANY_CLIENT, "malformed"),
        ({"names": ("a",) * 65}, ANY_CLIENT, "malformed"),
        ({"names": ("<b>",)}, ANY_CLIENT, "malformed"),
        ({"threads": ("x" * 65,)}, ANY_CLIENT, "malformed"),
        ({"at": -1}, ANY_CLIENT, "malformed"),
        ({"at": 1 << 60}, ANY_CLIENT, "malformed"),
        ({"lost": -1}, ANY_CLIENT, "malformed"),
        ({"threads": ("x" * 1_000_000,)}, ANY_CLIENT, "envelope size"),
        ({}, Client("other", "actor", 3), "label"),
    ],
)
def test_hostile_spans_are_refused_and_counted(watched, changes, sender, reason):
    """Markup, names of a megabyte, times that no clock has, and another label's name."""
    spans = structs.replace(from_actor()["spans"], asked=watched.probe().asked, **changes)
    watched.hear(spans, sender)
    assert watched.refused == {reason: 1}
    assert watched.passed_on() == []


def test_actors_share_the_room_for_spans(watched):
    """Of one alone it is a message's, of very many a few windows'."""
    rooms = [watched.endpoint.traces._probe(actors).room for actors in (0, 1, 5, 10_000)]
    assert rooms == [MOST, MOST, traces.ROOM // 5, traces.LEAST_ROOM]


def test_flood_of_spans_is_passed_over_at_a_pace(watched):
    """It is read no faster than all known actors may answer."""
    probe, most = watched.probe(), traces.ANSWERS + 100
    reads = []
    known = watched.endpoint.traces._known
    watched.endpoint.traces._known = lambda key: reads.append(key) or known(key)
    for number in range(4 * most):
        watched.answer(probe, incarnation=number + 100)
    assert traces.ANSWERS <= len(reads) <= most
    assert watched.passed_on() == []


def test_subscription_counts_for_a_bounded_time(watched, monkeypatch):
    """A client that goes on watching subscribes again."""
    watched.probe()
    clock = watched.endpoint.spans.clock
    watched.endpoint.traces._clock = lambda: clock() + traces.LASTS_S
    watched.sent(Probe)
    assert watched.sent((Probe, Trace)) == []
    assert watched.endpoint.subscribed(X)
    assert len(watched.sent(Probe)) == 1


def test_watcher_of_another_policy_asks_for_nothing(side):
    """It may watch all policies of an address, and not everything."""
    assert not side.endpoint.subscribed(topics.trace("red"))
    assert not side.endpoint.subscribed(b"")
    assert side.sent(Probe) == []
    assert side.endpoint.subscribed(topics.trace())
    assert len(side.sent(Probe)) == 1
