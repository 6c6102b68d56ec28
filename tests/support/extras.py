"""An algorithm that asks for extra columns of all three kinds, from all three sources."""

from typing import ClassVar

from torch import Tensor, nn

from farflung.common.data.spec import Column, Spec
from farflung.common.heads.head import LOG_PROBABILITY
from farflung.learner.algorithms.dqn import DQN
from farflung.learner.algorithms.protocol import Gradients
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.replay.replay import Batch

COLUMNS = (
    LOG_PROBABILITY,  # per step, computed by the head
    Column("info.mark", "int32", (2,), "observation"),  # supplied by the world
    Column("when", "float32", (), "observation"),  # an output of the graph
    Column("since", "float32", (), "trajectory"),  # an output of the graph
)


class Acting(nn.Module):
    """A network that answers with the step of what it sees, twice."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return values, and the step as two further outputs."""
        return self.network(observations), observations[:, 2] * 2, observations[:, 2] * 3


class Asking(DQN):
    """Deep Q-learning that keeps every batch."""

    batches: ClassVar[list[Batch]] = []

    @classmethod
    def columns(cls, spec: Spec, settings: DQNSettings) -> tuple[Column, ...]:
        """Return one column for each kind and source."""
        return COLUMNS

    def policy(self) -> nn.Module:
        """Return the network with its further outputs."""
        return Acting(self.network)

    def gradients(self, batch: Batch) -> Gradients:
        """Keep the batch."""
        self.batches.append(batch)
        return super().gradients(batch)
