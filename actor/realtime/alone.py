"""Time without a learner: what an actor at a fixed rate does then, counted."""

from enum import StrEnum


class WithoutLearner(StrEnum):
    """The answer to a learner that is away, or silent for some seconds."""

    GO_ON = "go-on"  # act with the last policy
    STOP = "stop"  # take no step until it is back


class Alone:
    """Counts periods without a learner, and says in which of them no step is taken."""

    def __init__(self, answer: WithoutLearner = WithoutLearner.GO_ON) -> None:
        self.steps = 0  # that were taken without a learner
        self.stopped = 0  # periods in which none was taken for that reason
        self._answer = answer

    def stops(self, there: bool) -> bool:
        """Count a period without a learner; return whether no step is to be taken in it."""
        if there:
            return False
        if self._answer is WithoutLearner.STOP:
            self.stopped += 1
            return True
        self.steps += 1
        return False
