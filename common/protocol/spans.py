"""Spans: what each thread of a process did, from when until when. Recorded only while asked for.

A taker is one learner that asks. It holds so many spans as the learner has room for, and counts the
others. Times are those of the process's own monotonic clock.
"""

import re
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from types import TracebackType
from typing import NamedTuple

from farflung.common.data.fields import IDENTITY_BITS
from farflung.common.process.errors import Refused

RECORD = struct.Struct("<qIHH")  # begin and length in microseconds, places of thread and name
MOST = 2000  # spans in one message: half of what an envelope may have
LABELS = 64  # different threads, and names, in one message
LONGEST_US = (1 << 32) - 1
LATEST_US = 1 << IDENTITY_BITS
# Of the room for spans, the part that those of single steps may fill: there are so many of them
# that nothing would be left for those of whole windows.
FOR_STEPS = 0.9
MAIN = "MainThread"  # as Python names it
KEPT_S = 1.0  # for which spans are recorded after the last question


class Span(NamedTuple):
    """A piece of work of one thread."""

    thread: str
    name: str
    begin_us: int
    length_us: int


class Batch(NamedTuple):
    """Spans as a message has them."""

    threads: tuple[str, ...]
    names: tuple[str, ...]
    block: bytes  # a record each


def microseconds(seconds: float) -> int:
    """Return a time of a clock in whole microseconds: rounded down, so spans stay nested."""
    return int(seconds * 1e6)


class Tracer:
    """The spans of all threads of a process. Any thread may call `span` and `add`.

    While there is no taker, a span costs one test of an attribute.
    """

    def __init__(self, main: str = MAIN, clock: Callable[[], float] = time.monotonic) -> None:
        """Make one; `main` is the work of the main thread."""
        self.on = False
        self.clock = clock
        self._main = main
        self._takers: tuple[Taker, ...] = ()

    def span(self, name: str) -> AbstractContextManager[object]:
        """Return a context that is recorded as a span, if any are."""
        return _Open(self, name) if self.on else NOTHING

    def add(self, name: str, begin: float, end: float, *, of_step: bool = False) -> None:
        """Record a span that has ended; `of_step` is one of very many."""
        at = microseconds(begin)
        length = max(0, min(microseconds(end) - at, LONGEST_US))
        thread = threading.current_thread().name
        span = Span(self._main if thread == MAIN else thread, name, at, length)
        for taker in self._takers:
            taker.put(span, of_step)

    def enter(self, taker: "Taker") -> None:
        """Record for a taker from now on."""
        if taker not in self._takers:
            self._takers = (*self._takers, taker)
        self.on = True

    def leave(self, taker: "Taker") -> None:
        """Record for a taker no longer."""
        self._takers = tuple(other for other in self._takers if other is not taker)
        self.on = bool(self._takers)


class _Open:
    """A span that has not ended."""

    __slots__ = ("_begin", "_name", "_tracer")

    def __init__(self, tracer: Tracer, name: str) -> None:
        self._tracer, self._name = tracer, name

    def __enter__(self) -> None:
        self._begin = self._tracer.clock()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tracer.add(self._name, self._begin, self._tracer.clock())


NOTHING = nullcontext()


class Taker:
    """The spans for one learner, from one question to the next. One thread asks."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.lost = 0  # spans without room, in all
        self._spans: deque[Span] = deque()
        self._room, self._until_us = 0, -1

    def put(self, span: Span, of_step: bool) -> None:
        """Keep a span if there is room; record no more if the questions have ended."""
        if span.begin_us > self._until_us:
            self.tracer.leave(self)
        elif len(self._spans) < self._room * (FOR_STEPS if of_step else 1.0):
            self._spans.append(span)
        else:
            self.lost += 1

    def take(self, room: int) -> Batch:
        """Return the spans since the last question, and record at most so many until the next."""
        now_us = microseconds(self.tracer.clock())
        if now_us > self._until_us:
            self._spans.clear()  # of another trace
        self._room, self._until_us = min(room, MOST), now_us + microseconds(KEPT_S)
        self.tracer.enter(self)
        threads, names, block = _Labels(), _Labels(), bytearray()
        for _ in range(min(len(self._spans), MOST)):
            thread, name, begin, length = self._spans.popleft()
            block += RECORD.pack(begin, length, threads.place(thread), names.place(name))
        return Batch(tuple(threads), tuple(names), bytes(block))


class _Labels(dict[str, int]):
    """Labels in the order in which they were met. Those beyond the bound share the last place."""

    def place(self, text: str) -> int:
        """Return the place of a text as a label."""
        label = as_label(text)
        if label not in self and len(self) == LABELS:
            return LABELS - 1
        return self.setdefault(label, len(self))


@lru_cache(1024)
def as_label(text: str) -> str:
    """Return a text as a name: other letters become dashes."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:64].lstrip("-.")
    return plain or "unnamed"


def require_batch(threads: Sequence[str], names: Sequence[str], block: bytes) -> None:
    """Refuse spans that no honest process sends. The records themselves are not looked at."""
    if len(block) % RECORD.size or len(block) > MOST * RECORD.size:
        raise Refused("malformed", f"{len(block)} bytes are not up to {MOST} spans")
    if max(len(threads), len(names)) > LABELS:
        raise Refused("malformed", f"more than {LABELS} threads or names of spans")


def unpack(threads: Sequence[str], names: Sequence[str], block: bytes) -> Iterator[Span]:
    """Yield the spans of a message; pass over those that no clock or table has."""
    require_batch(threads, names, block)
    for begin, length, thread, name in RECORD.iter_unpack(block):
        if 0 <= begin < LATEST_US and thread < len(threads) and name < len(names):
            yield Span(threads[thread], names[name], begin, length)
