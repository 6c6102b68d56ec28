"""Deep Q-learning whose update takes at least as long as it is told, as a large network would."""

import time
from dataclasses import dataclass
from typing import Annotated, ClassVar

from cyclopts import Parameter

from bench._worlds import take
from farflung.common.process.config import require
from farflung.learner.algorithms.dqn import DQN
from farflung.learner.algorithms.protocol import Gradients
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.replay.replay import Batch

NAME = "bench._slow:Slow"  # as --algorithm has it


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowSettings(DQNSettings):
    """The settings of deep Q-learning, and the time of an update."""

    update_ms: Annotated[float, Parameter(metavar="MS")] = 0.0
    """Milliseconds that an update takes at least."""
    burns: bool = False
    """Spend the rest of that time at work instead of asleep, as for a device."""

    def __post_init__(self) -> None:
        require(self.update_ms >= 0, "slow.update-ms must not be negative")


class Slow(DQN):
    """Real updates, each stretched to its time; and the moment at which the last one ended."""

    name: ClassVar[str] = "slow"
    Settings: ClassVar[type[SlowSettings]] = SlowSettings
    settings: SlowSettings
    ended_at: ClassVar[float] = 0.0  # by time.monotonic

    def gradients(self, batch: Batch) -> Gradients:
        """Return the gradients, once the time of the update is over."""
        burns = self.settings.burns
        clock = time.thread_time if burns else time.monotonic
        began = clock()
        found = super().gradients(batch)
        take(max(0.0, began + self.settings.update_ms / 1000 - clock()), burns=burns)
        return found

    def apply(self, gradients: Gradients) -> None:
        """Take the step, and note the time."""
        super().apply(gradients)
        Slow.ended_at = time.monotonic()
