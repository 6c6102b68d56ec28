"""Soft actor-critic (Haarnoja et al., 2018b): twin critics, and a temperature that is learned."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farflung.common.data.spec import Spec
from farflung.learner.algorithms.continuous import DeterministicPolicy, GaussianPolicy
from farflung.learner.algorithms.continuous_algorithm import ContinuousAlgorithm
from farflung.learner.algorithms.continuous_settings import SAC_DEFAULTS, SACSettings
from farflung.learner.algorithms.protocol import Gradients
from farflung.learner.algorithms.trained import Trained, part, prefixed
from farflung.learner.replay.replay import Batch

LOG_2, LOG_2_PI = math.log(2), math.log(2 * math.pi)


class SAC(ContinuousAlgorithm):
    """Learns a policy of high value and high entropy. Actions are numbers in -1..1 here."""

    name: ClassVar[str] = "sac"
    head: ClassVar[str] = "squashed_gaussian"
    Settings: ClassVar[type[SACSettings]] = SACSettings
    settings: SACSettings
    network: ClassVar[type[DeterministicPolicy]] = GaussianPolicy
    defaults: ClassVar[Mapping[str, Any]] = MappingProxyType(SAC_DEFAULTS)

    def __init__(self, spec: Spec, settings: SACSettings, **others: Any) -> None:
        super().__init__(spec, settings, **others)
        self.temperature = Temperature(settings.temperature).to(self.device)
        self._temperature = Trained(self.temperature, settings.learning_rate)
        asked = settings.target_entropy
        self._target_entropy = -float(math.prod(self._shape)) if asked is None else asked
        self._target = self.target_of(self._critics)

    def take_learning_rate(self, rate: float | None) -> None:
        """Take another step size of policy and temperature; None: that of the settings."""
        super().take_learning_rate(rate)
        self._temperature.take_learning_rate(self.settings.learning_rate if rate is None else rate)

    def gradients(self, batch: Batch) -> Gradients:
        """Return the gradients of critics, actor and temperature, all at the same weights."""
        observations = self.inputs(batch.observations)
        actions = self.actions(batch)
        now, after = self.noise(2, len(batch))
        temperature = self.temperature().detach()

        targets = self.targets(batch, after, temperature)
        values = self.critics(observations, actions)  # [2, B]
        critic_loss = F.mse_loss(values, targets.expand_as(values), reduction="none").mean(1).sum()

        mean, log_std = self.actor(observations)
        drawn, logs = sampled(mean, log_std, now)
        lower = self.critics(observations, drawn).amin(dim=0)
        actor_loss = (temperature * logs - lower).mean() + self.imitation(mean.tanh(), batch)

        entropy = -logs.detach().mean()
        temperature_loss = self.temperature.log * (entropy - self._target_entropy)
        gradients = {
            "critics": self._critics.gradient(critic_loss),
            "actor": self._actor.gradient(actor_loss),
        }
        if self.settings.learn_temperature:
            gradients["temperature"] = self._temperature.gradient(temperature_loss)
        metrics = {
            "loss": critic_loss,
            "actor_loss": actor_loss,
            "gradient_norm": gradients["critics"].norm(),
            "value": values.mean(),
            "entropy": entropy,
            "temperature": temperature,
        }
        return Gradients(gradients, {name: metric.detach() for name, metric in metrics.items()})

    @torch.no_grad()
    def targets(self, batch: Batch, noise: Tensor, temperature: Tensor) -> Tensor:
        """Return the targets of both critics, `[B] float32`."""
        observations = self.inputs(batch.next_observations)
        mean, log_std = self.actor(observations)
        actions, logs = sampled(mean, log_std, noise)
        lower = self._target.module(observations, actions).amin(dim=0)
        returns, discounts = self.tensor(batch.returns), self.tensor(batch.discounts)
        targets: Tensor = returns + discounts * (lower - temperature * logs)
        return targets

    def apply(self, gradients: Gradients) -> None:
        """Make one step of Adam for each network; then the target critics follow."""
        found, longest = gradients.tensors, self.settings.max_gradient_norm
        self._critics.step(found["critics"], longest)
        self._actor.step(found["actor"], longest)
        if "temperature" in found:
            self._temperature.step(found["temperature"])
        self._updates += 1
        self._target.follow(self._updates)

    def state(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {
            **self._actor.state("actor"),
            **self._critics.state("critics"),
            **self._temperature.state("temperature"),
            **prefixed("target.", self._target.module.state_dict()),
            "updates": torch.tensor(self._updates),
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a `state()` of the same spec and settings."""
        self._actor.restore(state, "actor")
        self._critics.restore(state, "critics")
        self._temperature.restore(state, "temperature")
        self._target.module.load_state_dict(part(state, "target."))
        self._updates = int(state["updates"])


class Temperature(nn.Module):
    """The weight of the entropy beside values. Its logarithm is learned, so it stays above 0."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor(math.log(temperature)))

    def forward(self) -> Tensor:
        """Return the temperature."""
        return self.log.exp()


def sampled(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return actions in -1..1 `[B, *shape]` and their log-densities `[B]`.

    log(1 - tanh(x)²) is 2 (log 2 - x - softplus(-2 x)): the first form is minus infinity from 9 on.
    """
    drawn = mean + log_std.exp() * noise
    gaussian = -0.5 * (noise * noise + LOG_2_PI) - log_std
    slope = 2 * (LOG_2 - drawn - F.softplus(-2 * drawn))
    return drawn.tanh(), (gaussian - slope).flatten(start_dim=1).sum(dim=1)
