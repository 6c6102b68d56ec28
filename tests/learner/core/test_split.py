"""The time of an update by its parts."""

from farflung.common.protocol.spans import Span, Taker, Tracer, unpack
from farflung.learner.core.split import Split


def test_parts_of_an_update_are_spans_while_they_are_recorded():
    """By the same clock; no part before the first question."""
    times = iter([1.0, 1.5, 3.0, 10.0, 10.25, 11.0])
    split = Split(lambda: next(times))
    split.spans = Tracer("training", lambda: 5.0)
    taker = Taker(split.spans)
    for recorded in (False, True):
        if recorded:
            split.spans.clock = lambda: 9.5
            taker.take(10)
        split.begin()
        split.lap("sample")
        split.lap("gradients")
    assert list(unpack(*taker.take(10))) == [
        Span("training", "sample", 10_000_000, 250_000),
        Span("training", "gradients", 10_250_000, 750_000),
    ]


def test_each_part_has_the_mean_of_its_times() -> None:
    """Two updates: 1 and 3 s of sampling, 2 and 2 s of gradients. Time between them is no part."""
    times = iter([0.0, 1.0, 3.0, 10.0, 13.0, 15.0])
    split = Split(lambda: next(times))
    for _ in range(2):
        split.begin()
        split.lap("sample")
        split.lap("gradients")
    assert split.seconds == {"sample": 2.0, "gradients": 2.0}


def test_without_a_clock_nothing_is_measured() -> None:
    """As in a core of its own."""
    split = Split()
    split.begin()
    split.lap("sample")
    assert split.seconds == {}
