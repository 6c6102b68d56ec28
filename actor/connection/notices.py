"""The notices of an actor to its learner: hello, report with its problems, spans, bye."""

from collections import deque
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from msgspec import structs

from farflung.actor.connection.port import Work
from farflung.actor.holding import holding
from farflung.common.data.weights import Version
from farflung.common.protocol import wire
from farflung.common.protocol.learner_tracker import LearnerTracker
from farflung.common.protocol.messages import Bye, Hello, Probe, Problem, Report, Spans
from farflung.common.protocol.outbox import Frame, Outbox
from farflung.common.protocol.spans import Taker, Tracer, microseconds

REPORT_S = 2.0
SOON_S = 0.5  # of an evaluator that plays another version now
REASON_LETTERS = 500
NOTICES = 8  # each is a state, so older ones may be dropped
PROBLEMS = 50
PROBLEM_BYTES = 4 << 10  # the end of a traceback matters most
PROBLEMS_BYTES = 32 << 10  # in one report, so that it stays a header


class Problems:
    """The newest problems for the learner's screen, numbered, bounded in number and bytes."""

    def __init__(self) -> None:
        self._newest: deque[Problem] = deque(maxlen=PROBLEMS)
        self._number = 0

    def add(self, kind: str, text: str) -> None:
        """Note a problem; of a long text the end is kept."""
        self._number += 1
        end = text.encode(errors="replace")[-PROBLEM_BYTES:].decode(errors="replace")
        self._newest.append(Problem(self._number, kind, end))

    def latest(self) -> tuple[Problem, ...]:
        """Return as many of the newest as a report has room for."""
        ends = accumulate(len(problem.text.encode()) for problem in reversed(self._newest))
        count = sum(end <= PROBLEMS_BYTES for end in ends)
        return tuple(self._newest)[len(self._newest) - count :]


class Notices:
    """The notices of one policy client until they are sent."""

    def __init__(
        self, policy: str, actor: str, tracker: LearnerTracker, outbox: Outbox[Any]
    ) -> None:
        self.work = Work()
        self.problems = Problems()
        self._policy, self._actor = policy, actor
        self._tracker, self._outbox = tracker, outbox
        self.weights_bytes = 0  # of the version that came last
        self._report_at = float("-inf")
        self._reported: Version | None = None  # as the version that is evaluated
        self._frames: deque[bytearray] = deque(maxlen=NOTICES)
        self._last: Report | None = None
        self.taker = Taker(Tracer("steps"))  # of spans; its owner may share a tracer
        self._spans: bytearray | None = None  # the newest answer to a probe

    def hello(self, held: Version, seats: int, evaluates: bool) -> None:
        """Greet the learner, and confirm its latest snapshot."""
        nonce, base = self._tracker.confirmed, self._outbox.base
        self._add(Hello(*self._origin, nonce, held, base, seats, evaluates))

    def report_is_due(self, now: float) -> bool:
        """Return whether a report is due, and count its time from now on if it is."""
        pause_s = REPORT_S if self._reported == self.work.evaluating else SOON_S
        if now - self._report_at < pause_s:
            return False
        self._report_at = now
        return True

    def report(self, held: Version) -> None:
        """Report the counters, the latest problems, and the version that is played or held."""
        self._reported = self.work.evaluating
        memory = holding(self.weights_bytes, self._outbox.held_bytes, self.work.memory)
        counters = self.work.counters | self._outbox.ledger.figures() | memory
        base, version = self._outbox.base, self._reported or held
        self._last = Report(*self._origin, base, version, counters, self.problems.latest())
        self._add(self._last)

    def aside(self) -> bytearray | None:
        """Return the last report, with what hangs since; None before it. For another thread."""
        last = self._last
        if last is None:
            return None
        counters = last.counters | {"hangs_s": self.work.hangs_s}
        return wire.encode(structs.replace(last, counters=counters))

    def bye(self, reason: str) -> None:
        """Send the bye to a learner that is known, with the reason of the end."""
        if self._tracker.run:
            self._add(Bye(*self._origin, self._outbox.base, reason[:REASON_LETTERS]))

    def drain(self, send: Callable[[Frame], bool]) -> bool:
        """Send the notices until `send` does not take one; return whether all were sent."""
        while self._frames:
            if not send(self._frames[0]):
                return False
            self._frames.popleft()
        if self._spans is not None and send(self._spans):
            self._spans = None
        return True

    def answer(self, probe: Probe) -> None:
        """Send the spans since the last probe, and the time: it is after the probe came."""
        if (probe.run, probe.learner_id) != (self._tracker.run, self._tracker.learner_id):
            return
        at = microseconds(self.taker.tracer.clock())
        batch = self.taker.take(probe.room)
        spans = Spans(*self._origin, probe.asked, at, self.taker.lost, *batch)
        self._spans = wire.encode(spans)

    def clear(self) -> None:
        """Drop all notices: their run is over."""
        self._frames.clear()
        self._last = None

    @property
    def _origin(self) -> tuple[str, str, str, int]:
        return self._tracker.run, self._policy, self._actor, self._outbox.incarnation

    def _add(self, notice: Hello | Report | Bye) -> None:
        self._frames.append(wire.encode(notice))
