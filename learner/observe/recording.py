"""A recording of spans: those of each process on the learner's clock, as a Chrome trace.

Its format is the JSON of Chrome's trace viewer, which Perfetto reads. No sockets and no clock.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from farflung.common.process.errors import Refused
from farflung.common.protocol.messages import Trace
from farflung.common.protocol.spans import RECORD, Span, microseconds, require_batch, unpack
from farflung.learner.observe.alignment import Clock, RoundTrip, align

SPANS = 1_000_000  # of one recording: 100 MB of JSON
PROCESSES = 1024
ROUND_TRIPS = 4096  # of one process
EARLIER_US = microseconds(1.0)  # than the first message of its process: no span begins
LEARNER = "learner"
TRAINING = frozenset({"update", "apply", "gradients"})
COLLECTION = frozenset({"window", "environment", "inference"})

Interval = tuple[float, float]


class Process:
    """The spans and round trips of one process."""

    def __init__(self, actor: str, first_us: int) -> None:
        self.name = f"actor {actor}" if actor else LEARNER
        self.trips: list[RoundTrip] = []
        self.spans: list[Span] = []
        self.lost = 0  # spans that had no room in it, or here
        self.refused = 0  # that lie outside of the time when they were recorded
        self._first_us = first_us
        self._lost_before: int | None = None

    @property
    def clock(self) -> Clock:
        """Its clock, compared to the learner's."""
        return Clock(0.0, 0.0) if self.name == LEARNER else align(self.trips)

    def add(self, trace: Trace, room: int) -> int:
        """Add the spans of one message, at most so many; return how many."""
        if len(self.trips) < ROUND_TRIPS:
            self.trips.append(RoundTrip(trace.asked, trace.at, trace.received))
        before = trace.lost if self._lost_before is None else self._lost_before
        self.lost += max(0, trace.lost - before)
        self._lost_before = trace.lost
        number = len(trace.spans) // RECORD.size
        found = [
            span
            for span in unpack(trace.threads, trace.names, trace.spans)
            if self._first_us - EARLIER_US <= span.begin_us
            and span.begin_us + span.length_us <= trace.at
        ]
        self.refused += number - len(found)
        self.lost += max(0, len(found) - room)
        self.spans += found[:room]
        return min(len(found), room)

    @property
    def begin_us(self) -> float:
        """The beginning of its first span on the learner's clock."""
        return min(span.begin_us for span in self.spans) - self.clock.ahead_us

    def intervals(self, names: frozenset[str]) -> Iterator[Interval]:
        """Yield the times of spans of these names, on the learner's clock."""
        ahead_us = self.clock.ahead_us
        for span in self.spans:
            if span.name in names:
                begin = span.begin_us - ahead_us
                yield begin, begin + span.length_us


class Shares(NamedTuple):
    """The parts of the recorded time in which something was done, 0 to 1."""

    training: float
    collection: float
    both: float


class Recording:
    """The spans of all processes of one policy."""

    def __init__(self) -> None:
        self.run = self.policy = ""
        self.processes: dict[str, Process] = {}
        self.passed_over = 0  # messages of others
        self._spans = 0

    def add(self, trace: Trace) -> None:
        """Add a message; raise `Refused` for one that no honest learner sends."""
        if not trace.asked <= trace.received:
            raise Refused("malformed", "an answer came before its question")
        require_batch(trace.threads, trace.names, trace.spans)
        if not self.processes:
            self.run, self.policy = trace.run, trace.policy
        process = self.processes.get(trace.actor)
        is_ours = (trace.run, trace.policy) == (self.run, self.policy)
        if not is_ours or (process is None and len(self.processes) == PROCESSES):
            self.passed_over += 1
            return
        if process is None:
            process = self.processes[trace.actor] = Process(trace.actor, trace.at)
        self._spans += process.add(trace, SPANS - self._spans)

    @property
    def sorted(self) -> list[Process]:
        """The learner, then the actors by name."""
        return [self.processes[actor] for actor in sorted(self.processes)]

    @property
    def shares(self) -> Shares:
        """The parts of the time in which the learner trained, actors collected, and both at once.

        The time is that of the learner's own spans.
        """
        learner = self.processes.get("")
        if learner is None or not learner.spans:
            return Shares(0.0, 0.0, 0.0)
        begin = min(span.begin_us for span in learner.spans)
        end = max(span.begin_us + span.length_us for span in learner.spans)
        training = merged(learner.intervals(TRAINING))
        actors = (process for process in self.sorted if process is not learner)
        collection = merged(one for actor in actors for one in actor.intervals(COLLECTION))
        collection = overlap(collection, [(begin, end)])
        both = overlap(training, collection)
        length = max(1, end - begin)
        return Shares(*(total(parts) / length for parts in (training, collection, both)))

    def document(self) -> str:
        """Return the trace as JSON."""
        processes = self.sorted
        zero = min((process.begin_us for process in processes if process.spans), default=0.0)
        events: list[dict[str, Any]] = []
        for number, process in enumerate(processes, 1):
            events += _events(process, number, zero)
        document = {
            "traceEvents": events,
            "displayTimeUnit": "ms",
            "otherData": {
                "run": self.run,
                "policy": self.policy,
                "clocks": {p.name: _clock(p) for p in processes},
                "lost": {p.name: p.lost for p in processes},
                "refused": {p.name: p.refused for p in processes},
            },
        }
        return json.dumps(document, separators=(",", ":"), allow_nan=False)


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the same times as intervals that do not touch, in their order."""
    found: list[Interval] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def overlap(some: list[Interval], others: list[Interval]) -> list[Interval]:
    """Return the times that are in both; each is merged."""
    found, at = [], 0
    for begin, end in some:
        while at < len(others) and others[at][1] <= begin:
            at += 1
        further = at
        while further < len(others) and others[further][0] < end:
            found.append((max(begin, others[further][0]), min(end, others[further][1])))
            further += 1
    return found


def total(intervals: list[Interval]) -> float:
    """Return the length of all intervals."""
    return sum(end - begin for begin, end in intervals)


def _clock(process: Process) -> dict[str, float]:
    clock = process.clock
    trips = 0 if process.name == LEARNER else len(process.trips)
    return {"ahead_us": clock.ahead_us, "error_us": clock.error_us, "round_trips": trips}


def _events(process: Process, number: int, zero: float) -> Iterator[dict[str, Any]]:
    """Yield the events of one process: names of its rows, then its spans as they began."""
    ahead_us = process.clock.ahead_us
    yield _row("process_name", number, 0, name=process.name)
    yield _row("process_sort_index", number, 0, sort_index=number)
    threads = sorted({span.thread for span in process.spans})
    rows = {thread: row for row, thread in enumerate(threads, 1)}
    for thread, row in rows.items():
        yield _row("thread_name", number, row, name=thread)
    # Of spans that begin together the longest first: it is around the others.
    for span in sorted(process.spans, key=lambda span: (span.begin_us, -span.length_us)):
        yield {
            "ph": "X",
            "name": span.name,
            "pid": number,
            "tid": rows[span.thread],
            "ts": span.begin_us - ahead_us - zero,
            "dur": span.length_us,
        }


def _row(what: str, process: int, thread: int, **named: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": named}
