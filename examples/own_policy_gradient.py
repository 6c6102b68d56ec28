"""REINFORCE with a baseline (Williams, 1992). Run it in this folder, so that Python finds it:

    learner check --algorithm own_policy_gradient:Reinforce
    learner --env CartPole-v1 --actors 2 --algorithm own_policy_gradient:Reinforce \\
        --until 'evaluation >= 475'
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from farflung.algorithms import (
    CONTINUES,
    Batch,
    Categorical,
    Column,
    Gradients,
    Model,
    Replay,
    Spec,
    Trained,
    require,
    returns_to_go,
    rollouts,
    seeded,
)

BASELINE = Column("baseline", "float32", (), "observation")  # a further output of the network


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Each field is a flag, such as `reinforce.gamma`, a variable and a key."""

    rollout: int = 512
    """Steps of all actors together that are learned from once, then no more."""
    gamma: float = 0.99
    """Discount of a reward for each step that it is away."""
    learning_rate: float = 3e-3
    """Step size of Adam."""

    def __post_init__(self) -> None:
        require(0 <= self.gamma <= 1, "reinforce.gamma must lie between 0 and 1")


class Network(nn.Module):
    """The logits of the actions, and the return to expect."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        numbers = math.prod(spec.observation[""].shape)
        self.policy = perceptron(numbers, spec.action.sizes[0])
        self.baseline = perceptron(numbers, 1)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output of the head, then the column: `[N, A]` and `[N]`."""
        return self.policy(observations), self.baseline(observations)[:, 0]


def perceptron(inputs: int, outputs: int) -> nn.Module:
    """Return a small network."""
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, outputs))


class Reinforce:
    """Makes actions likelier by as much as what came of them was more than expected."""

    name = "reinforce"
    head = "logits"
    Settings = Settings
    defaults = {"batch_size": 512, "publish_every": 1}

    def __init__(
        self,
        spec: Spec,
        settings: Settings,
        *,
        device: torch.device,
        seed: int,
        model: Model | None = None,
    ) -> None:
        self.settings = settings
        with seeded(seed):
            network = model(spec) if model else Network(spec)
        self.trained = Trained(network.to(device), settings.learning_rate)

    @classmethod
    def columns(cls, spec: Spec, settings: Settings) -> tuple[Column, ...]:
        """Return what actors record beside observations, actions and rewards."""
        return (BASELINE,)

    def policy(self) -> nn.Module:
        """Return the network that acts."""
        return self.trained.network

    def replay(self, spec: Spec, *, capacity: int, batch_size: int, seed: int) -> Replay:
        """Return rows that come in their order, each once."""
        own = self.settings
        return rollouts(
            spec,
            rollout=own.rollout,
            gamma=own.gamma,
            batch_size=batch_size,
            capacity=capacity,
            seed=seed,
        )

    def gradients(self, batch: Batch) -> Gradients:
        """Return the gradient of -(G - b) log pi(a | s), and of the baseline's (G - b)^2."""
        returns = returns_to_go(
            batch.returns,  # of one step: the rewards
            batch.discounts,
            batch[CONTINUES],
            batch.next_columns[BASELINE.name],
        )
        expected = self.trained.tensor(batch[BASELINE.name])
        actual = self.trained.tensor(returns)
        advantages = actual - expected
        advantages /= advantages.std() + 1e-6

        logits, baselines = self.trained.network(self.trained.inputs(batch.observations))
        logs = Categorical(logits).log_probabilities(self.trained.tensor(batch.actions))
        policy_loss = -(advantages * logs).mean()
        baseline_loss = (actual - baselines).square().mean()
        return self.trained.gradients(policy_loss + baseline_loss, baseline_loss=baseline_loss)

    def apply(self, gradients: Gradients) -> None:
        """Make one step of Adam."""
        self.trained.apply(gradients)

    def state(self) -> dict[str, Tensor]:
        """Return weights and optimizer: all that training changes."""
        return self.trained.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a `state()`."""
        self.trained.restore(state)
