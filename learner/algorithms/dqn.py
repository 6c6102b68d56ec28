"""Deep Q-learning (Mnih et al., 2015), and what was built on it as switches: docs/algorithms.md."""

from collections.abc import Callable
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from farflung.common.data.spec import ACTION_MASK, Column, Spec
from farflung.common.heads.valued import VALUES
from farflung.learner.algorithms import by_hand
from farflung.learner.algorithms.dqn_network import build, require_distribution
from farflung.learner.algorithms.networks import QNetwork
from farflung.learner.algorithms.noisy import Noise
from farflung.learner.algorithms.protocol import Gradients, Model
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.algorithms.trained import seeded
from farflung.learner.algorithms.value_algorithm import ValueAlgorithm, require_discrete
from farflung.learner.algorithms.value_distributions import (
    Distribution,
    munchausen,
    soft_value,
)
from farflung.learner.replay.replay import Batch, Replay
from farflung.learner.replay.transitions import Transitions

DISTANCES: dict[str, Callable[..., Tensor]] = {"huber": F.huber_loss, "mse": F.mse_loss}


class DQN(ValueAlgorithm):
    """Learns the values of discrete actions from transitions.

    A variant overrides `next_values` or `replay`, and uses `network`, `target`, `inputs`, `tensor`
    and `allowed`.
    """

    name: ClassVar[str] = "dqn"
    Settings: ClassVar[type[DQNSettings]] = DQNSettings
    settings: DQNSettings
    demonstrations: ClassVar[bool] = True

    def __init__(
        self,
        spec: Spec,
        settings: DQNSettings,
        *,
        device: torch.device,
        seed: int,
        model: Model | None = None,
    ) -> None:
        require_discrete(spec, self.name)
        with seeded(seed):
            network = model(spec) if model else build(spec, settings)
        self.distribution = getattr(network, "distribution", None)
        require_distribution(settings, self.distribution, self.name)
        super().__init__(network, settings, device=device, polyak=settings.polyak)
        self._noise = Noise(seed, self.network, self.target)
        self._backward = (
            by_hand.choose(self.network, self._parameters, self._target)
            if type(self) is DQN
            else by_hand.Autograd(self._parameters)  # a variant may take further gradients
        )

    @classmethod
    def columns(cls, spec: Spec, settings: DQNSettings) -> tuple[Column, ...]:
        """Return the values from which priorities of new rows follow, if actors supply them."""
        return VALUES if settings.prioritised and settings.actor_priorities else ()

    def replay(self, spec: Spec, *, capacity: int, batch_size: int, seed: int) -> Replay:
        """Return an empty replay of n-step transitions."""
        own = self.settings
        rows = Transitions(spec, n_step=own.n_step, gamma=own.gamma)
        sampler = self.sampler(capacity, batch_size, seed, own.priority_beta_updates)
        return Replay(spec, rows, sampler, capacity=capacity)

    def gradients(self, batch: Batch) -> Gradients:
        """Return the gradients of the mean distance between values and their targets."""
        with self._noise.drawn(self._updates), self._backward.taped():
            losses, values, errors = self.losses(batch)
            if batch.weights is not None:
                losses = self.tensor(batch.weights) * losses
            loss = losses.mean()
            gradients = self._backward.gradients(loss)
        return Gradients(
            tensors=gradients,
            metrics={
                "loss": loss.detach(),
                "gradient_norm": gradients.vector.norm(),
                "value": values.detach().mean(),
                "learning_rate": torch.tensor(self.learning_rate),
            },
            priorities=None if batch.weights is None else errors.detach().abs(),
        )

    def losses(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return each row's loss, the value of its action, and its error, all `[B] float32`."""
        if self.distribution is not None:
            return self._losses_of_distributions(batch, self.distribution)
        returns, discounts = self.tensor(batch.returns), self.tensor(batch.discounts)
        actions = self.tensor(batch.actions)
        with torch.no_grad():
            targets = returns + discounts * self.next_values(batch)
            if self.settings.munchausen:
                targets += self._munchausen(batch, actions)
        values = chosen(self.network(self.inputs(batch.observations)), actions)
        losses = DISTANCES[self.settings.loss](values, targets, reduction="none")
        return losses, values, targets - values

    def _losses_of_distributions(
        self, batch: Batch, distribution: Distribution
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the same for distributions of returns. The error of one is its loss."""
        network, target = cast(QNetwork, self.network), cast(QNetwork, self.target)
        with torch.no_grad():
            observations = self.inputs(batch.next_observations)
            nexts = target.distributions(observations)  # [B, A, K]
            values = network(observations) if self.settings.double else distribution.expected(nexts)
            nexts = _of_action(nexts, self.allowed(values, batch).argmax(dim=1))
        outputs = network.distributions(self.inputs(batch.observations))
        outputs = _of_action(outputs, self.tensor(batch.actions))
        returns, discounts = self.tensor(batch.returns), self.tensor(batch.discounts)
        losses = distribution.losses(outputs, nexts, returns, discounts)
        return losses, distribution.expected(outputs.detach()), losses

    def _munchausen(self, batch: Batch, actions: Tensor) -> Tensor:
        """Return what is added to the rewards of actions, `[B] float32`."""
        settings = self.settings
        values: Tensor = self.target(self.inputs(batch.observations))
        if (mask := batch.columns.get(ACTION_MASK)) is not None:
            values = legal_values(values, self.tensor(mask).bool())
        return munchausen(
            values,
            actions,
            settings.munchausen_temperature,
            settings.munchausen_share,
            settings.munchausen_lowest,
        )

    def next_values(self, batch: Batch) -> Tensor:
        """Return the values of the bootstrap observations, `[B] float32`. Called without autograd.

        With double Q-learning the online network chooses the action, and the target values it.
        """
        observations = self.inputs(batch.next_observations)
        values: Tensor = self.target(observations)
        if self.settings.munchausen:
            return soft_value(self.allowed(values, batch), self.settings.munchausen_temperature)
        if not self.settings.double:
            return self.allowed(values, batch).amax(dim=1)
        best = self.allowed(self.network(observations), batch).argmax(dim=1)
        return chosen(values, best)

    def allowed(self, values: Tensor, batch: Batch) -> Tensor:  # [B, A] float32
        """Return the values at the bootstrap observations, with the lowest float for actions that
        are not legal there.

        Where none is legal, as at the end of an episode, the values stay as they are.
        """
        mask = batch.next_columns.get(ACTION_MASK)
        if mask is None:
            return values
        return legal_values(values, self.tensor(mask).bool())


def _of_action(outputs: Tensor, actions: Tensor) -> Tensor:  # [B, A, K] float32, [B] int64
    """Return the distribution of each row's action, `[B, K] float32`."""
    return outputs[torch.arange(len(actions), device=outputs.device), actions.long()]


def chosen(values: Tensor, actions: Tensor) -> Tensor:  # [B, A] float32, [B] int64
    """Return the value of each row's action, `[B] float32`."""
    return values.gather(1, actions.long()[:, None])[:, 0]


def legal_values(values: Tensor, legal: Tensor) -> Tensor:  # [B, A] float32, [B, A] bool
    """Return the values, with the lowest float for actions that are not legal in rows with any.

    It is finite, so that a discount of 0 makes 0 of it.
    """
    others = ~legal & legal.any(dim=1, keepdim=True)
    return values.masked_fill(others, torch.finfo(values.dtype).min)
