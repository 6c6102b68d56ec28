"""Spans: recorded for a while after each question, within bounds, and read with distrust."""

import threading

import pytest

from farflung.common.process.errors import Refused
from farflung.common.protocol.spans import (
    FOR_STEPS,
    KEPT_S,
    LABELS,
    MOST,
    NOTHING,
    RECORD,
    Span,
    Taker,
    Tracer,
    as_label,
    microseconds,
    unpack,
)


class Time:
    """A clock that is set."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def tracer(time):
    return Tracer("steps", time)


def test_tracer_records_nothing_until_it_is_asked(tracer, time):
    """No context is made, and what is added has no taker."""
    assert tracer.span("window") is NOTHING
    tracer.add("window", 99.0, 100.0)
    assert Taker(tracer).take(10).block == b""
    assert tracer.on


def test_spans_are_those_since_the_last_question(tracer, time):
    """A span around another one, in microseconds, in the order in which they ended."""
    taker = Taker(tracer)
    taker.take(10)
    with tracer.span("window"):
        time.now = 100.1
        with tracer.span("pack"):
            time.now = 100.25
        time.now = 100.5
    assert list(unpack(*taker.take(10))) == [
        Span("steps", "pack", 100_100_000, 150_000),
        Span("steps", "window", 100_000_000, 500_000),
    ]
    assert taker.take(10).block == b""
    assert taker.lost == 0


def test_threads_have_their_names(tracer):
    """The main thread's is the work it does."""
    taker = Taker(tracer)
    taker.take(10)
    tracer.add("window", 100.0, 100.1)
    other = threading.Thread(target=tracer.add, args=("sync", 100.0, 100.1), name="journal")
    other.start()
    other.join()
    assert [span.thread for span in unpack(*taker.take(10))] == ["steps", "journal"]


def test_recording_ends_when_the_questions_do(tracer, time):
    """The first span after that is not kept, and old ones are not sent in a later trace."""
    taker = Taker(tracer)
    taker.take(10)
    tracer.add("window", 100.0, 100.1)
    time.now += KEPT_S + 0.1
    assert tracer.on
    tracer.add("window", time.now, time.now)
    assert not tracer.on
    assert taker.take(10).block == b""
    assert tracer.on


def test_steps_leave_room_for_other_spans(tracer):
    """Those without room are counted."""
    taker = Taker(tracer)
    taker.take(20)
    for _ in range(100):
        tracer.add("environment", 100.0, 100.0, of_step=True)
    assert taker.lost == 100 - FOR_STEPS * 20
    tracer.add("window", 100.0, 100.0)
    names = [span.name for span in unpack(*taker.take(20))]
    assert names == ["environment"] * 18 + ["window"]


def test_no_question_gets_more_than_a_message_has(tracer):
    """However much room it offers."""
    taker = Taker(tracer)
    taker.take(10 * MOST)
    for _ in range(2 * MOST):
        tracer.add("window", 100.0, 100.0)
    assert len(taker.take(10 * MOST).block) == MOST * RECORD.size
    assert taker.lost == MOST


def test_two_learners_get_the_spans_of_one_process_each(tracer, time):
    """One of them ends its trace before the other."""
    takers = Taker(tracer), Taker(tracer)
    for taker in takers:
        taker.take(10)
    tracer.add("window", 100.0, 100.1)
    assert [len(list(unpack(*taker.take(10)))) for taker in takers] == [1, 1]
    time.now += KEPT_S + 0.1
    takers[0].take(10)
    tracer.add("window", time.now, time.now)
    assert [len(list(unpack(*taker.take(10)))) for taker in takers] == [1, 0]


def test_times_are_rounded_so_that_spans_stay_nested():
    """The inner one ends no later than the outer one, at any place."""
    tracer = Tracer()
    taker = Taker(tracer)
    tracer.clock = lambda: 0.1
    taker.take(MOST)
    for step in range(300):
        begin = 0.1 + step * 1.37e-7
        tracer.add("inner", begin, begin + 3.3e-6)
        tracer.add("outer", begin, begin + 3.3e-6)
    spans = list(unpack(*taker.take(MOST)))
    for inner, outer in zip(spans[::2], spans[1::2], strict=True):
        assert inner.begin_us == outer.begin_us
        assert inner.length_us == outer.length_us
    assert microseconds(2.9999999) == 2_999_999


def test_labels_are_names_and_bounded(tracer):
    """Other letters become dashes; the last place is shared."""
    assert as_label("Thread-1 (<b>serve</b>)") == "Thread-1---b-serve--b--"
    assert as_label("-.\x1b[2J") == "2J"
    assert as_label("") == "unnamed"
    assert len(as_label("x" * 1_000_000)) == 64
    taker = Taker(tracer)
    taker.take(MOST)
    for number in range(LABELS + 20):
        tracer.add(f"name {number}", 100.0, 100.0)
    batch = taker.take(MOST)
    assert len(batch.names) == LABELS
    assert [span.name for span in unpack(*batch)][-1] == f"name-{LABELS - 1}"


@pytest.mark.parametrize(
    ("threads", "names", "block"),
    [
        (["a"], ["b"], b"\0" * (RECORD.size - 1)),
        (["a"], ["b"], b"\0" * RECORD.size * (MOST + 1)),
        (["a"] * (LABELS + 1), ["b"], b""),
        (["a"], ["b"] * (LABELS + 1), b""),
    ],
)
def test_batch_that_no_process_sends_is_refused(threads, names, block):
    """Torn records, too many of them, or of labels."""
    with pytest.raises(Refused, match="malformed"):
        list(unpack(threads, names, block))


@pytest.mark.parametrize("record", [(-1, 5, 0, 0), (1 << 60, 5, 0, 0), (9, 5, 1, 0), (9, 5, 0, 1)])
def test_record_that_no_clock_or_table_has_is_passed_over(record):
    """The others count."""
    block = RECORD.pack(*record) + RECORD.pack(9, 5, 0, 0)
    assert list(unpack(["a"], ["b"], block)) == [Span("a", "b", 9, 5)]
