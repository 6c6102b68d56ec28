"""The counters that schedules decide on."""

from dataclasses import dataclass

from farflung.common.data.version import Version
from farflung.learner.core.pacing import Pacing


@dataclass(slots=True)
class CoreState:
    """The progress of training. Only the core writes it; schedules read it."""

    pacing: Pacing
    version: Version  # the newest publication
    steps: int = 0  # environment steps that entered the replay
    updates: int = 0
    published_steps: int = 0
    published_updates: int = 0

    @property
    def unpublished(self) -> int:
        """Updates that no version has yet."""
        return self.updates - self.published_updates
