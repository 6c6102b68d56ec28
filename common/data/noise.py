"""Noise in the weights of a policy: tensors that a learner sends as zeros, and actors draw."""

from collections.abc import Iterable

from farflung.common.data.spec import Tensor

NAMES = ("noise_in", "noise_out")  # last parts of the names of such tensors


def is_noise(tensor: Tensor) -> bool:
    """Return whether an exploring actor draws the numbers of a weight by itself."""
    return tensor.dtype == "float32" and tensor.name.rpartition(".")[2] in NAMES


def is_noisy(weights: Iterable[Tensor]) -> bool:
    """Return whether any of these weights is noise."""
    return any(map(is_noise, weights))
