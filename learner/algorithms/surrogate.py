"""The clipped surrogate of PPO (Schulman et al., 2017), and means over rows that count."""

import torch
from torch import Tensor


def clipped_surrogate(log_ratios: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """Return min(ratio A, clip(ratio, 1 - clip, 1 + clip) A) of each row, `[B]`.

    Beyond the clip in the direction of its advantage a row has no gradient.
    """
    ratios = log_ratios.exp()
    return torch.minimum(ratios * advantages, ratios.clamp(1 - clip, 1 + clip) * advantages)


def divergence(log_ratios: Tensor) -> Tensor:
    """Return an estimate of KL(old, new) for each row, `[B]`: (ratio - 1) - log(ratio).

    It is never negative, and has less variance than -log(ratio) (Schulman, 2020).
    """
    return torch.expm1(log_ratios) - log_ratios


def mean(values: Tensor, weights: Tensor | None = None) -> Tensor:  # both [B]
    """Return the mean of rows by weight, 0-d; 0 if none has any."""
    if weights is None:
        return values.mean()
    return (weights * values).sum() / weights.sum().clamp(min=1)


def normalised(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return values with mean 0 and deviation 1 over the rows that count, `[B]`."""
    centred = values - mean(values, weights)
    return centred / (mean(centred.square(), weights).sqrt() + 1e-8)
