"""A schedule: decides what the training thread does next, as data."""

from dataclasses import dataclass
from typing import Protocol

from farflung.learner.core.actions import Action
from farflung.learner.core.state import CoreState
from farflung.learner.endpoint.item_queue import ItemQueue

NEVER = float("-inf")


@dataclass(slots=True)
class Moment:
    """Facts for a decision that the core does not know: the time, and the end of the run."""

    now: float = 0.0  # seconds, by the clock of the loop
    published_at: float = NEVER  # by the same clock; NEVER: not yet by this process
    over: bool = False  # the goal is reached, or a signal came
    rows_wanted: int = 0  # environment steps until the goal of --steps


class Schedule(Protocol):
    """The order of inserts, updates and publications in one mode.

    Both methods are pure: they read core, queue and moment, and change nothing. So a test is a
    table, and several processes that do the same actions stay the same.
    """

    def decide(self, core: CoreState, queue: ItemQueue, moment: Moment) -> Action:
        """Return the next action."""
        ...

    def room(self, core: CoreState, moment: Moment) -> int:
        """Return how many rows may be on their way into the replay: the credit of all actors."""
        ...
