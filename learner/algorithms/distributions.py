"""The distributions of actions that heads draw from: log-probabilities and entropies, for losses.

`common/heads/` has the same for actors, in numpy.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

LOG_2_PI = math.log(2 * math.pi)


class Distribution(Protocol):
    """The actions of B observations."""

    def log_probabilities(self, actions: Tensor) -> Tensor:
        """Return the log-probability of each row's action, `[B] float32`."""

    def entropies(self) -> Tensor:
        """Return each row's entropy in nats, `[B] float32`."""


class Categorical:
    """One of several actions."""

    def __init__(self, logits: Tensor) -> None:  # [B, A]
        self._logs = logits.log_softmax(dim=-1)

    def log_probabilities(self, actions: Tensor) -> Tensor:  # [B] int64
        """Return the log-probability of each row's action, `[B]`."""
        return self._logs.gather(1, actions.long()[:, None])[:, 0]

    def entropies(self) -> Tensor:
        """Return each row's entropy, `[B]`. An action that is not legal adds nothing to it."""
        return -(self._logs.exp() * self._logs).sum(dim=-1)


class MultiCategorical:
    """Several choices at once, each independent of the others."""

    def __init__(self, logits: Tensor, sizes: Sequence[int]) -> None:  # [B, sum(sizes)]
        self._choices = [Categorical(part) for part in torch.split(logits, list(sizes), dim=1)]

    def log_probabilities(self, actions: Tensor) -> Tensor:  # [B, *shape] int64
        """Return the sum of the choices' log-probabilities, `[B]`."""
        columns = actions.flatten(start_dim=1).unbind(dim=1)
        pairs = zip(self._choices, columns, strict=True)
        return torch.stack([choice.log_probabilities(column) for choice, column in pairs]).sum(0)

    def entropies(self) -> Tensor:
        """Return the sum of the choices' entropies, `[B]`."""
        return torch.stack([choice.entropies() for choice in self._choices]).sum(dim=0)


class Gaussian:
    """Numbers, each with a mean and a deviation of its own."""

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:  # both [B, *shape]
        self._mean, self._log_std = mean.flatten(start_dim=1), log_std.flatten(start_dim=1)

    def log_probabilities(self, actions: Tensor) -> Tensor:  # [B, *shape], before clipping
        """Return the log-density of each row's action, `[B]`."""
        errors = (actions.flatten(start_dim=1) - self._mean) * (-self._log_std).exp()
        return (-0.5 * (errors.square() + LOG_2_PI) - self._log_std).sum(dim=1)

    def entropies(self) -> Tensor:
        """Return each row's differential entropy, `[B]`."""
        return (0.5 * (1 + LOG_2_PI) + self._log_std).sum(dim=1)
