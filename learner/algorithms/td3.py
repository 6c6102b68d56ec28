"""Twin delayed deep deterministic policy gradient (Fujimoto et al., 2018)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from farflung.common.data.spec import Spec
from farflung.learner.algorithms.continuous import DeterministicPolicy
from farflung.learner.algorithms.continuous_algorithm import ContinuousAlgorithm
from farflung.learner.algorithms.continuous_settings import TD3_DEFAULTS, TD3Settings
from farflung.learner.algorithms.protocol import Gradients
from farflung.learner.algorithms.trained import part, prefixed
from farflung.learner.replay.replay import Batch


class TD3(ContinuousAlgorithm):
    """Learns a deterministic policy of high value. Actions are numbers in -1..1 here."""

    name: ClassVar[str] = "td3"
    head: ClassVar[str] = "deterministic"
    Settings: ClassVar[type[TD3Settings]] = TD3Settings
    settings: TD3Settings
    network: ClassVar[type[DeterministicPolicy]] = DeterministicPolicy
    defaults: ClassVar[Mapping[str, Any]] = MappingProxyType(TD3_DEFAULTS)

    def __init__(self, spec: Spec, settings: TD3Settings, **others: Any) -> None:
        super().__init__(spec, settings, **others)
        self._targets = self.target_of(self._actor), self.target_of(self._critics)

    def gradients(self, batch: Batch) -> Gradients:
        """Return the gradients of the critics, and at every few updates of the actor."""
        observations = self.inputs(batch.observations)
        actions = self.actions(batch)

        targets = self.targets(batch, self.noise(len(batch)))
        values = self.critics(observations, actions)  # [2, B]
        critic_loss = F.mse_loss(values, targets.expand_as(values), reduction="none").mean(1).sum()
        gradients = {"critics": self._critics.gradient(critic_loss)}
        metrics = {
            "loss": critic_loss,
            "gradient_norm": gradients["critics"].norm(),
            "value": values.mean(),
        }
        if (self._updates + 1) % self.settings.policy_every == 0:
            first = self.critics.twins[0]
            best = self.actor(observations).tanh()
            actor_loss = -first(observations, best).mean() + self.imitation(best, batch)
            gradients["actor"] = self._actor.gradient(actor_loss)
        return Gradients(gradients, {name: metric.detach() for name, metric in metrics.items()})

    @torch.no_grad()
    def targets(self, batch: Batch, noise: Tensor) -> Tensor:
        """Return the targets of both critics `[B] float32`, at actions near the target policy's."""
        actor, critics = (target.module for target in self._targets)
        observations = self.inputs(batch.next_observations)
        limit = self.settings.target_noise_limit
        near = (self.settings.target_noise * noise).clamp(-limit, limit)
        actions = (actor(observations).tanh() + near).clamp(-1, 1)
        lower = critics(observations, actions).amin(dim=0)
        returns, discounts = self.tensor(batch.returns), self.tensor(batch.discounts)
        targets: Tensor = returns + discounts * lower
        return targets

    def apply(self, gradients: Gradients) -> None:
        """Make one step of Adam; with one of the actor both target networks follow."""
        found, longest = gradients.tensors, self.settings.max_gradient_norm
        self._critics.step(found["critics"], longest)
        self._updates += 1
        if "actor" in found:
            self._actor.step(found["actor"], longest)
            for target in self._targets:
                target.follow(self._updates)

    def state(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        actor, critics = (target.module.state_dict() for target in self._targets)
        return {
            **self._actor.state("actor"),
            **self._critics.state("critics"),
            **prefixed("target_actor.", actor),
            **prefixed("target_critics.", critics),
            "updates": torch.tensor(self._updates),
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a `state()` of the same spec and settings."""
        self._actor.restore(state, "actor")
        self._critics.restore(state, "critics")
        actor, critics = (target.module for target in self._targets)
        actor.load_state_dict(part(state, "target_actor."))
        critics.load_state_dict(part(state, "target_critics."))
        self._updates = int(state["updates"])
