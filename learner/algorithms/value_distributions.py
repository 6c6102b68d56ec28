"""Distributions of returns in place of their means: categorical (Bellemare et al., 2017) and
quantiles (Dabney et al., 2018). A policy acts by their expectations.

The last dimension of an output has the K numbers of a distribution.
"""

from typing import TYPE_CHECKING, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from farflung.learner.algorithms.settings import DQNSettings

if TYPE_CHECKING:
    from farflung.learner.graph.layers import Sheet, Value


class Distribution(Protocol):
    """A form of distributions: their expectation, and the loss of one against its target."""

    atoms: int

    def expected(self, outputs: Tensor) -> Tensor:
        """Return the expectations `[..., K]` -> `[...]`."""

    def as_graph(self, sheet: "Sheet", outputs: "Value") -> "Value":
        """Write the nodes of `expected`."""

    def losses(
        self, outputs: Tensor, next_outputs: Tensor, returns: Tensor, discounts: Tensor
    ) -> Tensor:
        """Return each row's loss against `returns + discounts * next`, `[B]`.

        Both outputs are `[B, K]`, those of the next observations without gradients.
        """


class Categorical:
    """Probabilities of K returns between two limits; the outputs are logits."""

    def __init__(self, atoms: int, lowest: float, highest: float) -> None:
        self.atoms, self.lowest, self.highest = atoms, lowest, highest

    def expected(self, outputs: Tensor) -> Tensor:
        """Return the mean returns `[..., K]` -> `[...]`."""
        means: Tensor = outputs.softmax(dim=-1) @ self._returns(outputs)
        return means

    def as_graph(self, sheet: "Sheet", outputs: "Value") -> "Value":
        """Write the nodes of `expected`."""
        returns = sheet.constant(self._returns(torch.zeros(())).numpy(), "float32")
        shares = sheet.node("Softmax", outputs, axis=-1)
        return sheet.node("MatMul", shares, returns, shape=outputs.shape[:-1])

    def losses(
        self, outputs: Tensor, next_outputs: Tensor, returns: Tensor, discounts: Tensor
    ) -> Tensor:
        """Return the cross-entropy with the projected target, `[B]`."""
        places = returns[:, None] + discounts[:, None] * self._returns(outputs)
        targets = projected(next_outputs.softmax(dim=1), places, self.lowest, self.highest)
        return -(targets * outputs.log_softmax(dim=1)).sum(dim=1)

    def _returns(self, like: Tensor) -> Tensor:
        return torch.linspace(self.lowest, self.highest, self.atoms, device=like.device)


class Quantiles:
    """K equally likely returns; the outputs are the returns."""

    def __init__(self, atoms: int) -> None:
        self.atoms = atoms

    def expected(self, outputs: Tensor) -> Tensor:
        """Return the mean returns `[..., K]` -> `[...]`."""
        return outputs.mean(dim=-1)

    def as_graph(self, sheet: "Sheet", outputs: "Value") -> "Value":
        """Write the nodes of `expected`."""
        last, shape = sheet.constant([-1], "int64"), outputs.shape[:-1]
        return sheet.node("ReduceMean", outputs, last, shape=shape, keepdims=0)

    def losses(
        self, outputs: Tensor, next_outputs: Tensor, returns: Tensor, discounts: Tensor
    ) -> Tensor:
        """Return the quantile Huber loss, `[B]`."""
        return quantile_huber(outputs, returns[:, None] + discounts[:, None] * next_outputs)


def of_settings(settings: DQNSettings) -> Distribution | None:
    """Return the distribution that is learned; None if it is the mean alone."""
    if settings.distribution == "categorical":
        return Categorical(settings.atoms, settings.v_min, settings.v_max)
    return Quantiles(settings.atoms) if settings.distribution == "quantile" else None


def projected(probabilities: Tensor, places: Tensor, lowest: float, highest: float) -> Tensor:
    """Return probabilities `[B, K]` of any returns `[B, K]` as those of K returns in equal steps.

    Each is shared by its two neighbours, the nearer one having more; beyond the limits, it is at
    the limit.
    """
    last = probabilities.shape[1] - 1
    scaled = ((places - lowest) * (last / (highest - lowest))).clamp(0, last)
    below = scaled.floor()
    above_shares, indices = scaled - below, below.long()
    found = torch.zeros_like(probabilities)
    found.scatter_add_(1, indices, probabilities * (1 - above_shares))
    return found.scatter_add_(1, (indices + 1).clamp(max=last), probabilities * above_shares)


def quantile_huber(quantiles: Tensor, targets: Tensor) -> Tensor:
    """Return the loss of quantiles `[B, K]` against samples of their targets `[B, M]`, `[B]`.

    An error above a quantile counts by its level, one below by the rest: the sum over quantiles of
    the mean over targets.
    """
    errors = targets[:, None, :] - quantiles[:, :, None]  # [B, K, M]
    count = quantiles.shape[1]
    levels = (torch.arange(count, device=errors.device) + 0.5) / count
    shares = (levels[:, None] - (errors < 0).float()).abs()
    distances = F.huber_loss(errors, torch.zeros_like(errors), reduction="none")
    return (shares * distances).mean(dim=2).sum(dim=1)


def soft_value(values: Tensor, temperature: float) -> Tensor:
    """Return the value of acting by the softmax of values `[B, A]`, with its entropy, `[B]`."""
    return temperature * torch.logsumexp(values / temperature, dim=1)


def munchausen(
    values: Tensor, actions: Tensor, temperature: float, share: float, lowest: float
) -> Tensor:
    """Return what is added to the rewards of actions `[B]`, a share of their log-probabilities.

    Those are scaled by the temperature and not below `lowest` (Vieillard et al., 2020).
    """
    logs = temperature * (values / temperature).log_softmax(dim=1)
    taken = logs.gather(1, actions.long()[:, None])[:, 0]
    return share * taken.clamp(lowest, 0)
