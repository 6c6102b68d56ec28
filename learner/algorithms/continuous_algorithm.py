"""The parts that SAC and TD3 share: an actor, twin critics, replay, and batches as tensors.

Actions are numbers in -1..1 here.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from farflung.common.data.spec import Column, Spec
from farflung.common.heads.bounded import Scale
from farflung.learner.algorithms.continuous import (
    DeterministicPolicy,
    TwinCritics,
    distance,
    require_continuous,
)
from farflung.learner.algorithms.continuous_settings import ContinuousSettings
from farflung.learner.algorithms.flat_parameters import TargetNetwork
from farflung.learner.algorithms.protocol import Model
from farflung.learner.algorithms.trained import OnDevice, Trained, normal, seeded
from farflung.learner.replay.replay import DEMONSTRATED, Batch, Replay
from farflung.learner.replay.sampling import Uniform
from farflung.learner.replay.transitions import Transitions


class ContinuousAlgorithm(OnDevice):
    """Learns a policy of continuous actions from transitions, with two critics."""

    name: ClassVar[str]
    settings: ContinuousSettings
    network: ClassVar[type[DeterministicPolicy]]
    demonstrations: ClassVar[bool] = True

    def __init__(
        self,
        spec: Spec,
        settings: ContinuousSettings,
        *,
        device: torch.device,
        seed: int,
        model: Model | None = None,
    ) -> None:
        require_continuous(spec, self.name)
        self.settings, self.device, self._seed = settings, device, seed
        self._scale, self._shape = Scale(spec.action), spec.action.shape
        form = settings.hidden, settings.layer_norm
        with seeded(seed):
            actor = model(spec) if model else self.network(spec, *form)
            critics = TwinCritics(spec, *form)
        self.actor, self.critics = actor.to(device), critics.to(device)
        self._actor = Trained(self.actor, settings.learning_rate)
        self._critics = Trained(self.critics, settings.critic_learning_rate)
        self._updates = 0

    @classmethod
    def columns(cls, spec: Spec, settings: ContinuousSettings) -> tuple[Column, ...]:
        """Return nothing: the loss needs no extra columns."""
        return ()

    def policy(self) -> nn.Module:
        """Return the network that acts."""
        return self.actor

    def replay(self, spec: Spec, *, capacity: int, batch_size: int, seed: int) -> Replay:
        """Return an empty replay of n-step transitions."""
        rows = Transitions(spec, n_step=self.settings.n_step, gamma=self.settings.gamma)
        return Replay(spec, rows, Uniform(batch_size, seed), capacity=capacity)

    def take_learning_rate(self, rate: float | None) -> None:
        """Take another step size of the policy, not of the critics; None: that of the settings."""
        self._actor.take_learning_rate(self.settings.learning_rate if rate is None else rate)

    def target_of(self, trained: Trained) -> TargetNetwork:
        """Return a target network that follows by the share of the settings."""
        polyak = self.settings.polyak
        return TargetNetwork(trained.network, trained.parameters, polyak=polyak, every=1)

    def imitation(self, best: Tensor, batch: Batch) -> Tensor:  # best [B, *shape]
        """Return the weighted distance of best actions from demonstrated ones; 0 without any."""
        weight, marks = self.settings.imitation, batch.columns.get(DEMONSTRATED)
        if not weight or marks is None:
            return torch.zeros((), device=self.device)
        return weight * distance(best, self.actions(batch), self.tensor(marks))

    def actions(self, batch: Batch) -> Tensor:
        """Return the actions of a batch as numbers in -1..1, `[B, *shape]`."""
        return self.tensor(self._scale.squashed(batch.actions))

    def noise(self, *rows: int) -> Tensor:
        """Return the noise of this update's actions, `[*rows, *shape]`."""
        return self.tensor(normal(self._seed, self._updates, *rows, *self._shape))
