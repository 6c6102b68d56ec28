"""Problems of an actor for the learner's screen: the newest ones, bounded in number and bytes."""

from collections import deque
from itertools import accumulate

from farflung.common.protocol.messages import Problem

PROBLEMS = 50
PROBLEM_BYTES = 4 << 10  # the end of a traceback matters most
PROBLEMS_BYTES = 32 << 10  # in one report, so that it stays a header


class Problems:
    """The newest problems, numbered."""

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
