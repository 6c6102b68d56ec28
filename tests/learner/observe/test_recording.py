"""A recording as a Chrome trace: rows, times on one clock, bounds, and spans that are not true."""

import json

import pytest
from msgspec import structs

from farflung.common.process.errors import Refused
from farflung.common.protocol import wire
from farflung.common.protocol.messages import Trace
from farflung.common.protocol.spans import RECORD
from farflung.learner.observe import recording as recordings
from farflung.learner.observe.recording import Recording, merged, overlap, total
from farflung.learner.observe.trace import line, take

AHEAD = 5_000_000  # microseconds, of the actor's clock


def a_trace(*spans, actor="", at=1_000_000, lost=0, **changes):
    """Return the spans (name, begin, length) of one thread, in one message."""
    names = sorted({name for name, _, _ in spans})
    block = b"".join(
        RECORD.pack(begin, length, 0, names.index(name)) for name, begin, length in spans
    )
    times = (at, at, at)
    trace = Trace("run-1", "default", 5, actor, *times, lost, ("main",), tuple(names), block)
    return structs.replace(trace, **changes)


def an_answer(*spans, at=1_000_000, **changes):
    """Return spans of an actor with a clock ahead: 300 us there, 100 back."""
    moved = [(name, begin + AHEAD, length) for name, begin, length in spans]
    times = {"asked": at - 300, "at": at + AHEAD, "received": at + 100}
    return structs.replace(a_trace(*moved, actor="box-1"), **times | changes)


def document(*traces):
    """Return the JSON of a recording of these messages."""
    recording = Recording()
    for trace in traces:
        recording.add(trace)
    return json.loads(recording.document())


def complete(found):
    """Return the spans by the name of their process."""
    rows = {
        event["pid"]: event["args"]["name"]
        for event in found["traceEvents"]
        if event["name"] == "process_name"
    }
    return [
        (rows[event["pid"]], event["name"], event["ts"], event["dur"])
        for event in found["traceEvents"]
        if event["ph"] == "X"
    ]


def test_spans_of_two_hosts_are_on_the_clock_of_the_learner():
    """The actor's is 5 s ahead, known within 200 us: its spans are 100 us late here."""
    found = document(a_trace(("update", 900_000, 50_000)), an_answer(("window", 910_000, 30_000)))
    assert complete(found) == [
        ("learner", "update", 0.0, 50_000),
        ("actor box-1", "window", 10_000.0 - 100.0, 30_000),
    ]
    clocks = found["otherData"]["clocks"]
    assert clocks["learner"] == {"ahead_us": 0.0, "error_us": 0.0, "round_trips": 0}
    assert clocks["actor box-1"] == {"ahead_us": AHEAD + 100.0, "error_us": 201.0, "round_trips": 1}


def test_spans_of_a_thread_are_in_their_order_with_the_outer_first():
    """They came as they ended."""
    spans = ("inner", 900_000, 10), ("outer", 900_000, 100), ("next", 900_200, 5)
    found = complete(document(a_trace(*spans)))
    assert [name for _, name, _, _ in found] == ["outer", "inner", "next"]


def test_spans_outside_of_the_recorded_time_are_refused_and_counted():
    """Huge times, an end after the message, and a beginning long before the first one."""
    recording = Recording()
    spans = ("late", 999_999, 2), ("huge", 1 << 52, 2**32 - 1), ("negative", -5, 10)
    recording.add(a_trace(("early", 0, 10), ("good", 500_000, 10), *spans, at=1_000_002 - 2))
    recording.add(a_trace(("old", 2_000_000, 1), at=9_000_000, actor="x"))
    [learner, actor] = recording.sorted
    assert [span.name for span in learner.spans] == ["early", "good"]
    assert (learner.refused, actor.refused) == (3, 1)
    assert "3 refused" in line(learner)


def test_hostile_message_is_passed_over():
    """Markup for a name, an answer before its question, and no trace at all."""
    recording, good = Recording(), wire.encode(a_trace(("update", 900_000, 5)))
    for trace in (
        a_trace(names=("<script>alert(1)</script>",)),
        a_trace(actor="x" * 1_000_000),
        a_trace(actor="\x1b[2J"),
        a_trace(asked=2, received=1),
        a_trace(spans=b"odd"),
    ):
        take(recording, bytes(wire.encode(trace)))
    take(recording, b"no message")
    take(recording, bytes(good))
    assert recording.passed_over == 6
    assert len(complete(json.loads(recording.document()))) == 1


def test_recording_is_bounded(monkeypatch):
    """Spans beyond it are counted as lost, processes beyond it are passed over."""
    monkeypatch.setattr(recordings, "SPANS", 5)
    monkeypatch.setattr(recordings, "PROCESSES", 2)
    recording = Recording()
    for number in range(3):
        many = [("update", 900_000 + place, 1) for place in range(3)]
        recording.add(a_trace(*many, actor="x" * number))
    assert [(len(one.spans), one.lost) for one in recording.sorted] == [(3, 0), (2, 1)]
    assert recording.passed_over == 1


def test_lost_spans_count_from_the_beginning_of_the_recording():
    """A process counts since it began; another watcher may have been there before."""
    recording = Recording()
    for lost in (100, 100, 130):
        recording.add(a_trace(lost=lost))
    assert recording.processes[""].lost == 30


def test_other_policies_of_an_address_are_passed_over():
    """Each learner has a clock of its own."""
    recording = Recording()
    recording.add(a_trace(("update", 900_000, 5)))
    recording.add(a_trace(("update", 900_000, 5), policy="red"))
    assert recording.passed_over == 1
    with pytest.raises(Refused):
        recording.add(a_trace(asked=2, received=1))


def test_shares_are_those_of_the_learners_time():
    """It updates from 0 to 40 and 60 to 80 of 100; actors collect 30 to 70, in two windows."""
    recording = Recording()
    updates = ("update", 900_000, 40), ("update", 900_060, 20), ("waiting", 900_080, 20)
    recording.add(a_trace(*updates))
    windows = ("window", 900_030, 10), ("window", 900_040, 30)
    recording.add(a_trace(*windows, actor="x", at=1_000_000))
    shares = recording.shares
    assert tuple(shares) == pytest.approx((0.6, 0.4, 0.2), abs=0.02)


def test_intervals_are_merged_and_laid_over_each_other():
    """By hand: 0-3, 2-5 and 7-8; with 4-7.5 both are 4-5 and 7-7.5."""
    some = merged([(2, 5), (7, 8), (0, 3)])
    assert some == [(0, 5), (7, 8)]
    assert overlap(some, [(4, 7.5)]) == [(4, 5), (7, 7.5)]
    assert total(some) == 6


def test_empty_recording_is_a_document():
    """A learner without a span so far."""
    assert document(a_trace())["otherData"]["lost"] == {"learner": 0}
    assert tuple(Recording().shares) == (0.0, 0.0, 0.0)
