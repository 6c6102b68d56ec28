"""Time without a learner: what an actor at a fixed rate does then, counted."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any


class WithoutLearner(StrEnum):
    """The answer to a learner that is away, or silent for some seconds."""

    GO_ON = "go-on"  # act with the last policy
    STOP = "stop"  # take no step until it is back


Choose = Callable[[Any], Any]
"""A user's own answer: return the action for an observation, while no learner is there."""

Answer = WithoutLearner | Choose


class Alone:
    """Counts periods without a learner, and says in which of them no step is taken."""

    def __init__(self, answer: Answer = WithoutLearner.GO_ON) -> None:
        self.steps = 0  # that were taken without a learner
        self.stopped = 0  # periods in which none was taken for that reason
        self.choose: Choose | None = None if isinstance(answer, WithoutLearner) else answer
        self._stops = answer is WithoutLearner.STOP
        self._there = True

    @property
    def instead(self) -> Choose | None:
        """The user's function, if it chooses the action of the step that goes on."""
        return None if self._there else self.choose

    def stops(self, there: bool) -> bool:
        """Count a period without a learner; return whether no step is to be taken in it."""
        self._there = there
        if there:
            return False
        if self._stops:
            self.stopped += 1
            return True
        self.steps += 1
        return False


def is_answer(text: str) -> bool:
    """Return whether a text is a word for an answer, or may be the name of a function."""
    return text in [*WithoutLearner] or ":" in text
