"""The parts that PPO and IMPALA have in common: a policy with a value, learned from rollouts."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from farflung.common import heads
from farflung.common.data.spec import ACTION_MASK, Column, Spec
from farflung.common.heads.gaussian import UNCLIPPED_ACTIONS
from farflung.learner.algorithms.actor_critic_network import actor_critic
from farflung.learner.algorithms.distributions import (
    Categorical,
    Distribution,
    Gaussian,
    MultiCategorical,
)
from farflung.learner.algorithms.flat_parameters import FlatAdam, FlatParameters
from farflung.learner.algorithms.on_policy_settings import OnPolicySettings
from farflung.learner.algorithms.protocol import Gradients, Model
from farflung.learner.algorithms.trained import OnDevice, part, prefixed, seeded
from farflung.learner.replay.replay import Batch

HEADS = {"discrete": "logits", "multidiscrete": "multi_logits", "box": "gaussian"}
LEARNING_RATE, DIVERGENCE = "learning_rate", "kl"  # metrics


class ActorCritic(OnDevice):
    """A network of policy and value, its optimizer, and a batch as tensors.

    A variant has `gradients` and `replay`.
    """

    settings: OnPolicySettings
    head: ClassVar[str] = HEADS["discrete"]
    heads: ClassVar[Mapping[str, str]] = HEADS  # by kind of the action space

    def __init__(
        self,
        spec: Spec,
        settings: OnPolicySettings,
        *,
        device: torch.device,
        seed: int,
        model: Model | None = None,
    ) -> None:
        self.spec, self.settings, self.device = spec, settings, device
        self.head = HEADS[spec.action.kind]  # type: ignore[misc]  # the class has a default
        with seeded(seed):
            network = model(spec) if model else self.build(spec)
        self.network: nn.Module = network.to(device)
        self.parameters = FlatParameters(self.network)
        self._optimizer = FlatAdam(self.parameters, settings.learning_rate)
        self._rate = settings.learning_rate
        self._updates = 0

    @classmethod
    def columns(cls, spec: Spec, settings: OnPolicySettings) -> tuple[Column, ...]:
        """Return those that the head computes: the log-probability, and the unclipped action."""
        return heads.find(HEADS[spec.action.kind]).columns(spec)

    def build(self, spec: Spec) -> nn.Module:
        """Return the built-in network for a spec."""
        own = self.settings
        return actor_critic(spec, own.hidden, shared=own.shared, log_std=own.log_std)

    def policy(self) -> nn.Module:
        """Return the network that acts."""
        return self.network

    def evaluated(self, batch: Batch) -> tuple[Distribution, Tensor]:
        """Return the distribution of the actions of a batch now, and the values, `[B] float32`."""
        *outputs, values = self.answers(batch)
        return self.distribution(outputs, batch), values

    def answers(self, batch: Batch) -> tuple[Tensor, ...]:
        """Return the outputs of the head and the values for the rows of a batch."""
        found: tuple[Tensor, ...] = self.network(self.inputs(batch.observations))
        return found

    def distribution(self, outputs: list[Tensor], batch: Batch) -> Distribution:
        """Return the distribution that the outputs of the head describe, over legal actions."""
        action = self.spec.action
        if action.kind == "box":
            return Gaussian(*outputs)
        (logits,) = outputs
        if ACTION_MASK in batch.columns and heads.masked(self.spec):
            legal = self.tensor(batch[ACTION_MASK]).bool()
            logits = logits.masked_fill(~legal, torch.finfo(logits.dtype).min)
        if action.kind == "multidiscrete":
            return MultiCategorical(logits, action.sizes)
        return Categorical(logits)

    def actions(self, batch: Batch) -> Tensor:
        """Return the actions `[B, *shape]`; continuous ones as they were before clipping."""
        name = UNCLIPPED_ACTIONS if self.spec.action.kind == "box" else "actions"
        return self.tensor(batch[name])

    def weights(self, batch: Batch) -> Tensor | None:
        """Return the weights of the rows, `[B] float32`; None if all count the same."""
        return None if batch.weights is None else self.tensor(batch.weights)

    def stale(self, batch: Batch) -> Tensor:
        """Return the share of rows that are too old to count, 0-d."""
        return torch.tensor(0.0 if batch.weights is None else float((batch.weights == 0).mean()))

    def learning_rate(self, batch: Batch) -> Tensor:
        """Return the step size at this update, 0-d."""
        own = self.settings
        learned = self._updates * len(batch) / own.epochs  # environment steps
        left = max(0.0, 1 - learned / own.anneal_steps) if own.anneal_steps else 1.0
        return torch.tensor(self._rate * left)

    def take_learning_rate(self, rate: float | None) -> None:
        """Take another step size before it is annealed; None: that of the settings."""
        self._rate = self.settings.learning_rate if rate is None else rate

    def apply(self, gradients: Gradients) -> None:
        """Make one step of Adam along the clipped gradient."""
        self._optimizer.learning_rate = float(gradients.metrics[LEARNING_RATE])
        self._optimizer.step(gradients.tensors, self.settings.max_gradient_norm)
        self._updates += 1

    def state(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {
            **prefixed("network.", self.network.state_dict()),
            **prefixed("optimizer.", self._optimizer.state()),
            "updates": torch.tensor(self._updates),
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a `state()` of the same spec and settings."""
        self.network.load_state_dict(part(state, "network."))
        self._optimizer.restore(part(state, "optimizer."))
        self._updates = int(state["updates"])
