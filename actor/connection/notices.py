"""The notices of an actor to its learner: hello, report with its problems, bye."""

from collections import deque
from collections.abc import Callable
from dataclasses import asdict

from farflung.actor.connection.port import Work
from farflung.actor.connection.problems import Problems
from farflung.common.data.parcel import Parcel
from farflung.common.data.version import Version
from farflung.common.protocol import wire
from farflung.common.protocol.learner_tracker import LearnerTracker
from farflung.common.protocol.messages import Bye, Hello, Report
from farflung.common.protocol.outbox import Frame, Outbox

REASON_LETTERS = 500
NOTICES = 8  # each is a state, so older ones may be dropped


class Notices:
    """The notices of one policy client until they are sent."""

    def __init__(
        self, policy: str, actor: str, tracker: LearnerTracker, outbox: Outbox[Parcel]
    ) -> None:
        self.work = Work()
        self.problems = Problems()
        self._policy, self._actor = policy, actor
        self._tracker, self._outbox = tracker, outbox
        self._frames: deque[bytearray] = deque(maxlen=NOTICES)

    def hello(self, held: Version, seats: int, evaluates: bool) -> None:
        """Greet the learner, and confirm its latest snapshot."""
        nonce, base = self._tracker.confirmed, self._outbox.base
        self._add(Hello(*self._origin, nonce, held, base, seats, evaluates))

    def report(self, held: Version) -> None:
        """Report the counters and the latest problems."""
        counters = asdict(self.work) | self._outbox.ledger.figures()
        problems = self.problems.latest()
        self._add(Report(*self._origin, self._outbox.base, held, counters, problems))

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
        return True

    def clear(self) -> None:
        """Drop all notices: their run is over."""
        self._frames.clear()

    @property
    def _origin(self) -> tuple[str, str, str, int]:
        return self._tracker.run, self._policy, self._actor, self._outbox.incarnation

    def _add(self, notice: Hello | Report | Bye) -> None:
        self._frames.append(wire.encode(notice))
