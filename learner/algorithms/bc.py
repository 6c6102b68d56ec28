"""Behaviour cloning: the actions of demonstrations, learned as answers to their observations."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farflung.common.data.spec import Column, Spec
from farflung.common.heads.bounded import Scale
from farflung.common.process.errors import ConfigurationError
from farflung.learner.algorithms.bc_settings import BC_DEFAULTS, BCSettings
from farflung.learner.algorithms.continuous import (
    DeterministicPolicy,
    distance,
    require_continuous,
)
from farflung.learner.algorithms.networks import q_network
from farflung.learner.algorithms.protocol import Gradients, Model
from farflung.learner.algorithms.trained import OnDevice, Trained, seeded
from farflung.learner.replay.replay import DEMONSTRATED, Batch, Replay
from farflung.learner.replay.sampling import Uniform
from farflung.learner.replay.transitions import Transitions


class BC(OnDevice):
    """Learns the most likely action of demonstrations, or the mean of continuous ones."""

    name: ClassVar[str] = "bc"
    head: ClassVar[str] = "logits"
    heads: ClassVar[Mapping[str, str]] = MappingProxyType({"box": "deterministic"})
    Settings: ClassVar[type[BCSettings]] = BCSettings
    demonstrations: ClassVar[bool] = True
    defaults: ClassVar[Mapping[str, Any]] = MappingProxyType(BC_DEFAULTS)

    def __init__(
        self,
        spec: Spec,
        settings: BCSettings,
        *,
        device: torch.device,
        seed: int,
        model: Model | None = None,
    ) -> None:
        if spec.action.kind == "multidiscrete":
            raise ConfigurationError(
                f"bc learns one choice or continuous actions; those of {spec.world.environment} "
                "are several choices at once"
            )
        if spec.action.kind == "box":
            require_continuous(spec, self.name)
        self.head = spec.head  # type: ignore[misc]
        self.settings, self.device = settings, device
        self._scale = Scale(spec.action) if spec.action.kind == "box" else None
        with seeded(seed):
            network = model(spec) if model else build(spec, settings)
        self.network = network.to(device)
        self._trained = Trained(self.network, settings.learning_rate)

    @classmethod
    def columns(cls, spec: Spec, settings: BCSettings) -> tuple[Column, ...]:
        """Return nothing: the loss needs no extra columns."""
        return ()

    def policy(self) -> nn.Module:
        """Return the network that acts."""
        return self.network

    def replay(self, spec: Spec, *, capacity: int, batch_size: int, seed: int) -> Replay:
        """Return an empty replay of single steps."""
        rows = Transitions(spec, n_step=1, gamma=1.0)
        return Replay(spec, rows, Uniform(batch_size, seed), capacity=capacity)

    def gradients(self, batch: Batch) -> Gradients:
        """Return the gradients of the mean loss over the demonstrations of a batch."""
        marks = self.tensor(batch[DEMONSTRATED])
        answers = self.network(self.inputs(batch.observations))
        loss = self._loss(answers, batch.actions, marks)
        gradient = self._trained.gradient(loss)
        metrics = {"loss": loss.detach(), "gradient_norm": gradient.norm()}
        return Gradients({"network": gradient}, metrics)

    def _loss(self, answers: Tensor, actions: np.ndarray, marks: Tensor) -> Tensor:
        """Return the cross-entropy of choices, or the squared distance in halves of the range."""
        if self._scale is not None:
            return distance(answers.tanh(), self.tensor(self._scale.squashed(actions)), marks)
        losses = F.cross_entropy(answers, self.tensor(actions).long(), reduction="none")
        return (losses * marks).sum() / marks.sum().clamp(min=1)

    def apply(self, gradients: Gradients) -> None:
        """Make one step of Adam."""
        self._trained.step(gradients.tensors["network"])

    def take_learning_rate(self, rate: float | None) -> None:
        """Take another step size; None: that of the settings."""
        self._trained.take_learning_rate(self.settings.learning_rate if rate is None else rate)

    def state(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return self._trained.state("network")

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a `state()` of the same spec and settings."""
        self._trained.restore(state, "network")


def build(spec: Spec, settings: BCSettings) -> nn.Module:
    """Return the built-in network for a spec."""
    if spec.action.kind == "box":
        return DeterministicPolicy(spec, settings.hidden, settings.layer_norm)
    choices = spec.action.sizes[0]
    form = settings.hidden, False, settings.layer_norm
    return q_network(spec.observation, spec.stack, choices, *form)
