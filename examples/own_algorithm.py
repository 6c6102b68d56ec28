"""An algorithm and a network of your own. Run it in this folder, so that Python finds it:

    learner --env CartPole-v1 --actors 2 --algorithm own_algorithm:SoftDQN \\
        --soft-dqn.temperature 0.05 --model own_algorithm:network

It changes one thing in deep Q-learning. `own_policy_gradient.py` beside it shares nothing with it.
Actors need none of this: they receive the network as a graph.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from farflung.algorithms import DQN, Batch, DQNSettings, Spec, require


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftSettings(DQNSettings):
    """The settings of deep Q-learning and one more; each is a flag, a variable and a key."""

    temperature: float = 0.1
    """Weight of the other actions beside the greedy one."""

    def __post_init__(self) -> None:
        require(self.temperature > 0, "soft-dqn.temperature must be above 0")


class SoftDQN(DQN):
    """Bootstraps with a soft maximum: `temperature * log mean exp(values / temperature)`."""

    name: ClassVar[str] = "soft-dqn"
    Settings: ClassVar[type[SoftSettings]] = SoftSettings
    settings: SoftSettings

    def next_values(self, batch: Batch) -> Tensor:
        """Return the values of the bootstrap observations, `[B] float32`."""
        values: Tensor = self.target(self.inputs(batch.next_observations))  # [B, A] float32
        temperature, actions = self.settings.temperature, values.shape[1]
        return temperature * (torch.logsumexp(values / temperature, dim=1) - math.log(actions))


def network(spec: Spec) -> nn.Module:
    """Return a small network for plain observations, with a value for each action."""
    inputs = math.prod(spec.observation[""].shape) * spec.stack
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, spec.action.sizes[0])
    )
